//! Several classes: their shares, their models, and how requests are numbered.

use super::*;
use crate::workload::{Class, Law, Turns};

/// Three classes of 70, 20 and 10 %, told apart by their lengths and models.
fn mixed() -> Workload {
    let mut workload = workload();
    let class = |name: &str, weight, input, model: Option<&str>| Class {
        name: Some(name.to_owned()),
        weight,
        model: model.map(str::to_owned),
        ..Class::only(Content::of_lengths(input, 8))
    };
    workload.mix = vec![
        class("chat", 70.0, 64, None),
        class("long", 20.0, 200, Some("adapter")),
        class("short", 10.0, 5, None),
    ];
    workload.target.model = "base".to_owned();
    workload
}

/// The same, as conversations of one to four turns in the first two classes.
fn in_turns() -> Workload {
    let mut workload = mixed();
    for class in &mut workload.mix[..2] {
        let count = Law::of_lengths("uniform:1,4").unwrap();
        class.content.conversation.turns = Some(Turns { count, input: None });
    }
    workload.stop.sessions = Some(100);
    workload
}

#[test]
fn each_class_has_its_share() {
    const ITEMS: u64 = 20_000;
    let plan = plan(&mixed());
    let mut counts = [0_u64; 3];
    (0..ITEMS).for_each(|item| counts[plan.class_of(item)] += 1);
    for (count, share) in counts.into_iter().zip([0.7, 0.2, 0.1]) {
        let expected = share * ITEMS as f64;
        let sigma = (expected * (1.0 - share)).sqrt();
        assert!((count as f64 - expected).abs() < 4.0 * sigma, "{counts:?}");
    }
}

#[test]
fn a_class_asks_for_its_own_model_and_lengths() {
    let plan = plan(&mixed());
    let mut seen = [false; 3];
    for item in 0..60 {
        let (written, body) = said(&plan, item);
        let (model, tokens) = [("base", 64), ("adapter", 200), ("base", 5)][written.class];
        assert_eq!(body["model"], model);
        assert_eq!(tokens_of(prompt(&body)), tokens);
        assert_eq!((written.index, written.item, written.turn), (item, item, None));
        seen[written.class] = true;
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn the_first_class_says_what_it_would_alone() {
    let mut alone = mixed();
    alone.mix.truncate(1);
    let (mixed, alone) = (plan(&mixed()), plan(&alone));
    for item in (0..40).filter(|item| mixed.class_of(*item) == 0) {
        assert_eq!(said(&mixed, item).1, said(&alone, item).1);
    }
}

#[test]
fn weights_that_are_none_are_refused() {
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut workload = mixed();
        workload.mix[1].weight = weight;
        assert!(refusal(&workload).starts_with("weight "), "{weight}");
    }
    let mut none = mixed();
    none.mix.clear();
    assert!(refusal(&none).contains("no class"));
}

#[test]
fn requests_of_conversations_are_numbered_without_gaps() {
    let plan = plan(&in_turns());
    let mut walk = plan.walk();
    let mut expected = 0;
    let mut of_class = [0_u64; 3];
    for item in 0..100 {
        let place = walk.step(&plan);
        assert_eq!((place.item, place.index), (item, expected));
        assert_eq!((place.class, place.nth), (plan.class_of(item), of_class[place.class]));
        of_class[place.class] += 1;
        let mut written = plan.write(&place, &mut Scratch::default(), &mut Vec::new()).unwrap();
        for turn in 0.. {
            assert_eq!((written.index, written.item, written.turn), (expected, item, Some(turn)));
            expected += 1;
            let Some(script) = written.script.take() else { break };
            let next = plan.write_turn(script, b"yes", Some(1), &mut Vec::new());
            let Some(next) = next else { break };
            written = next;
        }
    }
    assert!(expected > 150, "{expected} requests of 100 conversations");
}

#[test]
fn whoever_goes_past_the_items_of_others_comes_to_the_same_places() {
    let plan = plan(&in_turns());
    let mut walk = plan.walk();
    let all: Vec<Place> = (0..60).map(|_| walk.step(&plan)).collect();
    assert_eq!(plan.place(59), all[59]);
    for reactors in [2, 3, 7] {
        for reactor in 0..reactors {
            let mut walk = plan.walk();
            let own = std::iter::repeat_with(|| walk.step(&plan)).take(60);
            let own: Vec<Place> = own.filter(|place| place.item % reactors == reactor).collect();
            let expected = all.iter().filter(|place| place.item % reactors == reactor);
            assert!(own.iter().eq(expected));
        }
    }
}

#[test]
fn where_items_are_conversations_they_alone_are_a_known_number() {
    let mut workload = in_turns();
    assert_eq!((plan(&workload).total(), plan(&workload).has_sessions()), (Some(100), true));
    workload.stop.sessions = None;
    assert_eq!(plan(&workload).total(), None);
}
