//! The engine of the serving model, step by step.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

/// Steps of 10 ms, 1 ms for each that decodes, 1 ms for each prompt token.
fn settings() -> ServingSettings {
    ServingSettings {
        max_batch: 2,
        prefill_rate: 1_000,
        prefill_chunk: 8,
        step_base_ns: 10 * MS,
        step_per_request_ns: MS,
        kv_tokens: 100,
        ..ServingSettings::default()
    }
}

/// Runs it until it has nothing to do; `(id, ms, index)` of each token.
fn drain(serving: &mut Serving) -> Vec<(u64, u64, u32)> {
    let mut tokens = Vec::new();
    while let Some(end_ns) = serving.next_ns() {
        let upcoming: Vec<Emitted> = serving.upcoming().collect();
        let before = tokens.len();
        serving.advance(end_ns, &mut |token| {
            assert_eq!(token, upcoming[tokens.len() - before], "told before, in the same order");
            tokens.push((token.id, token.at_ns / MS, token.index));
        });
        assert_eq!(tokens.len() - before, upcoming.len());
    }
    tokens
}

#[test]
fn a_step_takes_its_base_its_decodes_and_its_prompt_tokens() {
    let mut serving = Serving::new(&settings());
    serving.arrive(5 * MS, 1, 4, 3);
    serving.arrive(6 * MS, 2, 12, 2);
    // The first step has begun: 10 + 4. Then one decodes beside 8 tokens, beside 4 tokens.
    let tokens = drain(&mut serving);
    assert_eq!(tokens, [(1, 19, 0), (1, 38, 1), (1, 53, 2), (2, 53, 0), (2, 64, 1)]);
    let counters = serving.counters();
    assert_eq!((counters.prompt_tokens, counters.prefill_tokens), (16, 16));
    assert_eq!((counters.generation_tokens, counters.finished, counters.steps), (5, 2, 4));
    assert_eq!((counters.busy_ns, serving.kv_used()), (59 * MS, 0));
    assert_eq!((counters.running_peak, counters.waiting_peak), (2, 0));
}

#[test]
fn a_full_batch_makes_the_next_wait_their_turn() {
    let mut serving = Serving::new(&settings());
    for id in 0..4 {
        assert_eq!(serving.arrive(0, id, 2, 2), Arrival::Queued);
    }
    assert_eq!((serving.running(), serving.waiting()), (1, 3), "the step began with the first");
    let mut starts = BTreeMap::new();
    let mut done = 0;
    while let Some(end_ns) = serving.next_ns() {
        serving.advance(end_ns, &mut |token| {
            starts.insert(token.id, token.started_ns);
            done += u32::from(token.is_last);
        });
        assert!(serving.running() <= 2);
    }
    assert_eq!(done, 4);
    assert!(starts.values().is_sorted() && starts[&3] > starts[&1], "{starts:?}");
}

#[test]
fn late_calls_change_no_time() {
    let run = |step_ns: u64| {
        let mut serving = Serving::new(&settings());
        let mut tokens = Vec::new();
        for id in 0..3 {
            serving.arrive(0, id, 5, 4);
        }
        let mut now_ns = 0;
        while serving.next_ns().is_some() {
            now_ns += step_ns;
            serving.advance(now_ns, &mut |token| tokens.push(token));
        }
        tokens
    };
    assert_eq!(run(MS), run(1_000 * MS));
}

#[test]
fn what_finds_no_room_waits_or_is_refused() {
    let refuse = ServingSettings { when_full: WhenFull::Refuse, ..settings() };
    let queue = ServingSettings { queue: Some(1), ..settings() };
    for (settings, accepted) in [(refuse, 2), (queue, 3), (settings(), 5)] {
        let mut serving = Serving::new(&settings);
        let arrivals: Vec<Arrival> = (0..5).map(|id| serving.arrive(0, id, 2, 2)).collect();
        let queued = arrivals.iter().take_while(|arrival| **arrival == Arrival::Queued).count();
        assert_eq!(queued, accepted);
        let full = Arrival::Refused(Refusal::Full);
        assert!(arrivals[accepted..].iter().all(|arrival| *arrival == full));
        assert_eq!(serving.counters().refused, 5 - accepted as u64);
    }
    let mut serving = Serving::new(&settings());
    assert_eq!(serving.arrive(0, 0, 60, 41), Arrival::Refused(Refusal::TooLong));
    assert_eq!(serving.arrive(0, 1, 60, 40), Arrival::Queued, "it just fits");
    assert_eq!(serving.kv_used(), 100, "reserved");
    assert_eq!(serving.arrive(0, 2, 1, 1), Arrival::Queued);
    assert_eq!((serving.running(), serving.waiting()), (1, 1));
    assert_eq!(drain(&mut serving).len(), 41);
}

#[test]
fn the_youngest_is_preempted_and_computed_again() {
    let mut serving = Serving::new(&ServingSettings { kv_tokens: 20, preempt: true, ..settings() });
    serving.arrive(0, 1, 8, 6);
    serving.arrive(0, 2, 8, 6);
    let tokens = drain(&mut serving);
    for id in [1, 2] {
        let mine: Vec<_> = tokens.iter().filter(|token| token.0 == id).collect();
        assert!(mine.iter().map(|token| token.2).eq(0..6), "each once, in order: {tokens:?}");
    }
    let counters = serving.counters();
    // They hold 11 and 9 tokens when 2 has to go, which had two: 8 + 2 are computed again.
    assert_eq!((counters.preemptions, counters.finished), (1, 2), "{tokens:?}");
    assert_eq!((counters.prompt_tokens, counters.prefill_tokens), (16, 16 + 10), "{tokens:?}");
    assert_eq!(serving.kv_used(), 0);
}

#[test]
fn who_leaves_frees_its_place_at_once() {
    let mut serving = Serving::new(&ServingSettings { max_batch: 1, ..settings() });
    for id in 0..3 {
        serving.arrive(0, id, 8, 4);
    }
    let end_ns = serving.next_ns().unwrap();
    serving.advance(end_ns, &mut |_| ());
    assert_eq!(serving.leave(end_ns, 1), Some(Left { started_ns: None, generated: 0 }));
    assert_eq!(serving.leave(end_ns, 0), Some(Left { started_ns: Some(0), generated: 1 }));
    assert_eq!(serving.leave(end_ns, 0), None);
    assert_eq!((serving.kv_used(), serving.waiting()), (0, 1));
    // The step under way brings nothing more, but still ends when it ends.
    assert_eq!(serving.upcoming().count(), 0);
    assert_eq!(serving.next_ns(), Some(end_ns + 11 * MS));
    let tokens = drain(&mut serving);
    assert_eq!(tokens[0], (2, 18 + 11 + 18, 0));
    assert_eq!((tokens.len(), serving.counters().left), (4, 2));
}

#[test]
fn jitter_is_added_and_repeats_with_its_seed() {
    let jitter = |seed| {
        let law = "uniform:1ms,5ms".parse().unwrap();
        let mut serving = Serving::new(&ServingSettings { step_jitter: law, seed, ..settings() });
        serving.arrive(0, 0, 8, 20);
        let mut times = Vec::new();
        while let Some(end_ns) = serving.next_ns() {
            serving.advance(end_ns, &mut |token| times.push(token.at_ns));
        }
        times
    };
    assert_eq!(jitter(1), jitter(1));
    assert_ne!(jitter(1), jitter(2));
    assert!(jitter(1).windows(2).all(|pair| (12 * MS..=16 * MS).contains(&(pair[1] - pair[0]))));
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Arrive(u32, u32),
    Leave(u64),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1u32..40, 1u32..20).prop_map(|(input, output)| Act::Arrive(input, output)),
        1 => (0u64..60).prop_map(Act::Leave),
        4 => (0u64..60).prop_map(|ms| Act::Pass(ms * MS)),
    ];
    proptest::collection::vec(act, 0..120)
}

fn any_settings() -> impl Strategy<Value = ServingSettings> {
    let times = (0u64..5, 0u64..2, 1u64..2_000);
    let limits = (1u32..6, 1u32..30, 40u64..150, proptest::option::of(0u32..4));
    (times, limits, any::<bool>(), 1u32..4).prop_map(|(times, limits, preempt, at_once)| {
        ServingSettings {
            step_base_ns: times.0 * MS,
            step_per_request_ns: times.1 * MS,
            prefill_rate: times.2,
            max_batch: limits.0,
            prefill_chunk: limits.1,
            kv_tokens: limits.2,
            queue: limits.3,
            preempt,
            preempt_at_once: at_once,
            ..ServingSettings::default()
        }
    })
}

/// Holds an engine against what must be true of it at any time.
struct Watch {
    serving: Serving,
    now_ns: u64,
    /// Of each request accepted: tokens it asked for, tokens it had, the time of the last.
    asked: BTreeMap<u64, (u32, u32, u64)>,
    /// The first start of each that had a token.
    starts: BTreeMap<u64, u64>,
}

impl Watch {
    fn advance(&mut self, now_ns: u64) {
        let Self { serving, asked, starts, .. } = self;
        serving.advance(now_ns, &mut |token| {
            let (wanted, had, last_ns) = asked.get_mut(&token.id).unwrap();
            assert_eq!(token.index, *had);
            assert_eq!(token.is_last, *had + 1 == *wanted);
            assert!(token.at_ns > *last_ns && token.at_ns <= now_ns, "time rises");
            (*had, *last_ns) = (*had + 1, token.at_ns);
            assert_eq!(*starts.entry(token.id).or_insert(token.started_ns), token.started_ns);
        });
        self.now_ns = now_ns;
        let held: u64 = self.serving.kv_used();
        assert!(held <= self.serving.settings().kv_tokens);
        assert!(self.serving.running() <= self.serving.settings().max_batch as usize);
        assert!(self.serving.running() > 0 || held == 0);
        assert!(self.serving.next_ns().is_some() || self.serving.waiting() == 0);
    }

    fn act(&mut self, number: u64, act: Act) {
        match act {
            Act::Pass(ns) => self.advance(self.now_ns + ns),
            Act::Arrive(input, output) => {
                let arrival = self.serving.arrive(self.now_ns, number, input, output);
                if arrival == Arrival::Queued {
                    self.asked.insert(number, (output, 0, self.now_ns));
                }
            }
            Act::Leave(id) => {
                if let Some(left) = self.serving.leave(self.now_ns, id) {
                    let (_, had, _) = self.asked.remove(&id).unwrap();
                    assert_eq!(left.generated, had);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn every_token_comes_once_in_its_turn_and_nothing_is_left_behind(
        settings in any_settings(), acts in acts(),
    ) {
        let serving = Serving::new(&settings);
        let mut watch =
            Watch { serving, now_ns: 0, asked: BTreeMap::new(), starts: BTreeMap::new() };
        for (number, act) in acts.iter().enumerate() {
            watch.act(number as u64, *act);
        }
        while let Some(end_ns) = watch.serving.next_ns() {
            watch.advance(end_ns.max(watch.now_ns));
        }
        prop_assert!(watch.asked.values().all(|(wanted, had, _)| wanted == had));
        prop_assert_eq!((watch.serving.kv_used(), watch.serving.running()), (0, 0));
        prop_assert!(watch.starts.values().is_sorted(), "first come, first served");
        let counters = watch.serving.counters();
        prop_assert_eq!(counters.finished, watch.asked.len() as u64);
        prop_assert!(settings.preempt || counters.preemptions == 0);
        prop_assert!(counters.prefill_tokens >= counters.prompt_tokens);
    }
}
