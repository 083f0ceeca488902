//! Conversations: how many came to their end, and the figures of each turn.

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, ratio};
use super::metric::{Request, Since};
use crate::record::{Outcome, Tally};

/// Turns with figures of their own; later ones are put together.
const TURNS_APART: u32 = 20;

/// The conversations of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsReport {
    /// Conversations whose first request was measured.
    pub begun: u64,
    /// Conversations of the whole run that were carried out to their end.
    pub done: u64,
    /// Turns that were not sent, because a turn before them failed or the load ended.
    pub turns_unsent: u64,
    /// The figures of each turn.
    pub turns: Vec<TurnReport>,
}

/// The measured requests of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The turn, from 0; the last entry may stand for it and all later ones.
    pub turn: u32,
    /// It stands for later ones too.
    pub and_later: bool,
    /// Its requests.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Mean input tokens of the successful.
    pub input_tokens: Option<f64>,
    /// Mean output tokens of the successful.
    pub output_tokens: Option<f64>,
    /// Share of their input tokens that the server took from its cache, where it says so.
    pub cached_share: Option<f64>,
    /// TTFT of the successful, ns.
    pub ttft: Distribution,
    /// TPOT of the successful, ns.
    pub tpot: Distribution,
    /// E2E of the successful, ns.
    pub e2e: Distribution,
}

/// The conversations among `measured`; `None` where there are none.
pub(super) fn sessions(measured: &[&Request], tallies: &[Tally]) -> Option<SessionsReport> {
    let last = measured.iter().filter_map(|request| request.turn).max()?;
    let turns = (0..=last.min(TURNS_APART)).map(|turn| {
        let is_it = |request: &&&Request| match request.turn {
            Some(own) => own.min(TURNS_APART) == turn,
            None => false,
        };
        let own: Vec<&Request> = measured.iter().filter(is_it).copied().collect();
        report(turn, &own)
    });
    let sum = |field: fn(&Tally) -> u64| tallies.iter().map(field).fold(0, u64::saturating_add);
    Some(SessionsReport {
        begun: measured.iter().filter(|request| request.turn == Some(0)).count() as u64,
        done: sum(|tally| tally.sessions_done),
        turns_unsent: sum(|tally| tally.turns_unsent),
        turns: turns.collect(),
    })
}

fn report(turn: u32, own: &[&Request]) -> TurnReport {
    let ok: Vec<&&Request> = own.iter().filter(|request| request.is_ok()).collect();
    let of = |value: &dyn Fn(&Request) -> Option<u64>| {
        Distribution::from_values(&ok.iter().filter_map(|r| value(r)).collect::<Vec<u64>>())
    };
    let mean = |value: &dyn Fn(&Request) -> Option<u64>| {
        let values: Vec<u64> = ok.iter().filter_map(|request| value(request)).collect();
        ratio(values.iter().sum::<u64>() as f64, values.len() as f64)
    };
    // Over those of which both are known.
    let cached = ok.iter().filter_map(|r| Some((r.cached_tokens.get()?, r.input_tokens.get()?)));
    let (cached, input) = cached.fold((0, 0), |(c, i), (cached, input)| (c + cached, i + input));
    TurnReport {
        turn,
        and_later: turn == TURNS_APART,
        requests: own.len() as u64,
        failed: own.iter().filter(|request| request.outcome == Outcome::Error).count() as u64,
        input_tokens: mean(&|request| request.input_tokens.get()),
        output_tokens: mean(&|request| request.output_tokens.get()),
        cached_share: ratio(cached as f64, input as f64),
        ttft: of(&|r| r.ttft(Since::Origin)),
        tpot: of(&Request::tpot),
        e2e: of(&|r| r.e2e(Since::Origin)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::{MS, closed, failed, row};
    use crate::record::{ErrorClass, Row};

    fn of(rows: &[Row]) -> Option<SessionsReport> {
        let requests: Vec<Request> = rows.iter().map(|r| Request::new(r, &closed(1))).collect();
        let refs: Vec<&Request> = requests.iter().collect();
        sessions(&refs, &[Tally { sessions_done: 1, turns_unsent: 2, ..Tally::default() }])
    }

    #[test]
    fn each_turn_has_its_own_figures() {
        let turn = |turn, index, first| Row {
            turn: Some(turn),
            session: Some(0),
            cached_tokens: Some(4),
            ..row(index, &[first, first + 10])
        };
        let broken = Row { turn: Some(1), ..failed(3, ErrorClass::HttpStatus, 0, 5) };
        let got = of(&[turn(0, 0, 100), turn(1, 1, 20), turn(0, 2, 200), broken]).unwrap();
        assert_eq!((got.begun, got.done, got.turns_unsent), (2, 1, 2));
        assert_eq!(got.turns.len(), 2);
        assert_eq!(got.turns[0].ttft.max, Some(200 * MS));
        assert_eq!((got.turns[1].requests, got.turns[1].failed), (2, 1));
        assert_eq!(got.turns[1].cached_share, Some(0.5));
        assert_eq!(of(&[row(0, &[1])]), None, "no conversations");
    }

    #[test]
    fn very_long_conversations_end_in_one_line() {
        let rows: Vec<Row> =
            (0..50).map(|n| Row { turn: Some(n), ..row(u64::from(n), &[10]) }).collect();
        let got = of(&rows).unwrap();
        assert_eq!(got.turns.len() as u32, TURNS_APART + 1);
        let last = got.turns.last().unwrap();
        assert!(last.and_later && last.requests == 30);
    }
}
