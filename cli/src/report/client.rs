//! The client's own figures, shown whatever its verdict.

use tokclock_engine::measure::{ClientReport, Distribution, NetworkReport};

use super::baseline::instant;
use super::text::{NONE, Page, count, duration, percent};

/// Writes them.
pub(super) fn write(page: &mut Page, client: &ClientReport) {
    let ring = if client.ring.is_empty() { String::new() } else { format!(" ({})", client.ring) };
    page.words(
        "client",
        &format!(
            "driver {}{ring}{}, {} stamps, {} of the reads unstamped",
            client.driver,
            if client.spin { ", spinning" } else { "" },
            client.stamps,
            percent(client.unstamped_share)
        ),
    );
    page.words(
        "lag",
        &format!("{}; over reads with output {}", spread(&client.lag), spread(&client.lag_output)),
    );
    page.words("slip", &slip(client));
    page.words("baseline", &baseline(client));
    let busy: Vec<String> = client
        .reactors
        .iter()
        .map(|one| {
            format!("reactor {} on CPU {} {}", one.reactor, one.cpu, percent(one.busy_share))
        })
        .collect();
    let joined = busy.join(", ");
    page.words("busy", if busy.is_empty() { NONE } else { &joined });
    page.words(
        "coalesced",
        &format!(
            "{} of the output events, {} because of the client (an estimate); last events {}",
            percent(client.coalesced_share),
            percent(client.client_coalesced_share),
            percent(client.coalesced_last_share)
        ),
    );
    page.words("network", &network(&client.network));
    page.words(
        "host",
        &format!(
            "steal {}, packets dropped {}, receive turns cut short {}, feed starved {}, recorder \
             stalls {}, clock steps {}, connections {} ({} stale replaced), names resolved in {}",
            percent(client.steal_share),
            told(client.kernel_drops),
            told(client.softnet_squeezed),
            count(client.feed_starved),
            count(client.recorder_stalls),
            count(client.clock_steps),
            count(client.connections),
            count(client.stale_replaced),
            duration(Some(client.resolve_ns))
        ),
    );
}

/// A count, where there is one.
fn told(number: Option<u64>) -> String {
    number.map_or_else(|| NONE.into(), count)
}

fn network(network: &NetworkReport) -> String {
    if network.min_rtt.count == 0 {
        return "nothing known of the connections".into();
    }
    format!(
        "min RTT {} over {} connections: {} of the service TTFB, {} of the service TTFT at p50, a \
         part of both; sent again {}, out of order {}; receive windows closed in {} of {} looks",
        spread(&network.min_rtt),
        count(network.min_rtt.count),
        percent(network.min_rtt_of_ttfb),
        percent(network.min_rtt_of_ttft),
        percent(network.resent_share),
        percent(network.out_of_order_share),
        count(network.windows_closed),
        count(network.window_looks),
    )
}

/// How much of what this host sustains was used.
fn baseline(client: &ClientReport) -> String {
    let Some(ceiling) = &client.ceiling else {
        return "none is known: `tokclock baseline` finds out what this host sustains".into();
    };
    let taken = instant(ceiling.taken_realtime_ns);
    let used = client.reactors.iter().filter_map(|one| one.ceiling_share).reduce(f64::max);
    match ceiling.reads_per_s {
        Some(reads) => format!(
            "{taken}: a reactor sustains {} reads/s, the busiest used {}",
            count(reads.round() as u64),
            percent(used)
        ),
        None => format!("{taken}: no rate of reads was sustained"),
    }
}

fn slip(client: &ClientReport) -> String {
    let Some(slip) = &client.slip else { return "none: a closed loop has no schedule".into() };
    let causes: Vec<String> = slip
        .by_cause
        .iter()
        .map(|(cause, slips)| {
            format!("{cause} {} p99 {}", count(slips.count), duration(slips.percentiles.p99))
        })
        .collect();
    format!(
        "{}; {} late by more than {} for our own reasons; by cause: {}",
        spread(&slip.all),
        count(slip.late),
        duration(Some(slip.late_after_ns)),
        if causes.is_empty() { NONE.into() } else { causes.join(", ") }
    )
}

fn spread(of: &Distribution) -> String {
    format!("p50 {}, p99 {}", duration(of.percentiles.p50), duration(of.percentiles.p99))
}
