//! Conversations: what their turns say, and what they hold of earlier ones.

use super::*;
use crate::workload::{Groups, History, Law, Popularity, Turns};

/// Conversations of so many turns: 30 tokens first, then 12 more each, 8 out.
fn talk(turns: &str, history: History) -> Workload {
    let mut workload = workload();
    set_lengths(&mut workload, 30, 8);
    let law = |text| Law::of_lengths(text).unwrap();
    let content = content(&mut workload);
    content.conversation.turns = Some(Turns { count: law(turns), input: Some(law("12")) });
    content.conversation.history = history;
    workload.stop = Stop { sessions: Some(4), ..Stop::after(100) };
    workload
}

/// All requests of an item, each answered with `answer` of 7 tokens.
fn talked(plan: &Plan, item: u64, answer: &str) -> Vec<(Written, Value, String)> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    let mut next = Some(plan.render(item, &mut out).unwrap());
    while let Some(mut written) = next {
        let body = serde_json::from_slice(&out[written.body.clone()]).unwrap();
        let head = String::from_utf8(out[..written.body.start].to_vec()).unwrap();
        out.clear();
        let script = written.script.take();
        all.push((written, body, head));
        next =
            script.and_then(|script| plan.write_turn(script, answer.as_bytes(), Some(7), &mut out));
    }
    all
}

/// The role and the text of each message.
fn said_by(body: &Value) -> Vec<(&str, &str)> {
    let messages = body["messages"].as_array().unwrap().iter();
    let said =
        messages.map(|one| (one["role"].as_str().unwrap(), one["content"].as_str().unwrap()));
    said.collect()
}

#[test]
fn a_later_turn_holds_what_the_server_answered() {
    let plan = plan(&talk("3", History::Live));
    let answer = r#"He said \"hi\"\n\u00e9"#;
    let turns = talked(&plan, 0, answer);
    assert_eq!(turns.len(), 3);
    let roles = |turn: usize| {
        said_by(&turns[turn].1).iter().map(|(role, _)| (*role).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(roles(0), ["user"]);
    assert_eq!(roles(1), ["user", "assistant", "user"]);
    assert_eq!(roles(2), ["user", "assistant", "user", "assistant", "user"]);
    let [first, second, third] = [0, 1, 2].map(|turn| said_by(&turns[turn].1));
    assert_eq!(second[1].1, "He said \"hi\"\n\u{e9}");
    assert_eq!((second[0], third[..3].to_vec()), (first[0], second));
    assert_eq!(tokens_of(third[4].1), 12);
    let tokens = turns.iter().map(|turn| turn.0.input_tokens).collect::<Vec<_>>();
    assert_eq!(tokens, [Some(30), Some(30 + 7 + 12), Some(30 + 7 + 12 + 7 + 12)]);
    let known = turns.iter().map(|turn| turn.0.ideal_cached).collect::<Vec<_>>();
    assert_eq!(known, [Some(0), Some(30 + 7), Some(30 + 7 + 12 + 7)]);
    assert_eq!(turns[2].0.turn, Some(2));
}

#[test]
fn what_is_not_known_of_an_answer_is_not_made_up() {
    let plan = plan(&talk("2", History::Live));
    let script = plan.render(0, &mut Vec::new()).unwrap().script.unwrap();
    assert_eq!((script.turns_left(), script.session(), script.pause_ns()), (1, 0, Some(0)));
    let next = plan.write_turn(script, b"yes", None, &mut Vec::new()).unwrap();
    assert_eq!((next.input_tokens, next.ideal_cached), (None, None));
    assert!(plan.write_turn(next.script.unwrap(), b"yes", None, &mut Vec::new()).is_none());
}

#[test]
fn a_recorded_history_is_the_same_whatever_the_server_says() {
    let workload = talk("3", History::Recorded);
    let plan = plan(&workload);
    let [one, other] = ["yes", "no"].map(|answer| talked(&plan, 1, answer));
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.1, other.1);
    }
    let last = said_by(&one[2].1);
    let lengths: Vec<u32> = last.iter().map(|(_, text)| tokens_of(text)).collect();
    assert_eq!(lengths, [30, 8, 12, 8, 12], "answers as long as was asked for");
    assert_eq!(one[2].0.input_tokens, Some(70));
    assert_eq!(one[2].0.ideal_cached, Some(50), "the server has not said these answers");
}

#[test]
fn without_history_a_turn_says_what_is_new_alone() {
    let mut workload = talk("3", History::Nothing);
    content(&mut workload).shared.system_tokens = 20;
    let turns = talked(&plan(&workload), 0, "yes");
    for (written, body, _) in &turns[1..] {
        let said = said_by(body);
        assert_eq!(said.iter().map(|(role, _)| *role).collect::<Vec<_>>(), ["system", "user"]);
        assert_eq!((tokens_of(said[0].1), tokens_of(said[1].1)), (20, 12));
        let (input, known) = (written.input_tokens, written.ideal_cached);
        assert_eq!((input, known), (Some(32), Some(20)), "the system prompt is sent again");
    }
}

#[test]
fn texts_grow_line_by_line_where_there_are_no_messages() {
    for history in [History::Live, History::Recorded] {
        let mut workload = talk("2", history);
        workload.target.dialect = Dialect::OpenaiCompletions;
        content(&mut workload).shared.system_tokens = 20;
        let turns = talked(&plan(&workload), 0, "one two three four five six seven");
        let text = |turn: usize| turns[turn].1["prompt"].as_str().unwrap();
        let lines: Vec<&str> = text(1).split('\n').collect();
        assert_eq!((lines.len(), lines[0]), (3, text(0)), "{history:?}");
        assert_eq!((tokens_of(lines[0]), tokens_of(lines[2])), (50, 12), "{history:?}");
        if history == History::Recorded {
            assert_eq!(turns[1].0.input_tokens, Some(tokens_of(text(1))), "line ends included");
        }
    }
}

#[test]
fn each_api_has_its_own_place_for_what_was_said_before() {
    let mut workload = talk("2", History::Live);
    content(&mut workload).shared.system_tokens = 20;
    workload.target.dialect = Dialect::OpenaiResponses;
    let turns = talked(&plan(&workload), 0, "yes");
    assert_eq!(tokens_of(turns[0].1["input"].as_str().unwrap()), 30);
    let input = turns[1].1["input"].as_array().unwrap();
    assert_eq!((input.len(), &input[1]["content"]), (3, &json!("yes")));
    assert_eq!(tokens_of(turns[1].1["instructions"].as_str().unwrap()), 20);
    workload.target.dialect = Dialect::AnthropicMessages;
    let turns = talked(&plan(&workload), 0, "yes");
    assert_eq!(said_by(&turns[1].1).len(), 3);
    assert_eq!(turns[0].1["system"], turns[1].1["system"]);
}

#[test]
fn turns_pause_by_their_law_and_carry_their_session() {
    let mut workload = talk("3", History::Live);
    content(&mut workload).think = Some(Law::of_times("uniform:100ms,300ms").unwrap());
    workload.target.session_header = Some("X-Session".into());
    let plan = plan(&workload);
    let script = plan.render(2, &mut Vec::new()).unwrap().script.unwrap();
    let pause = script.pause_ns().unwrap();
    assert!((100_000_000..=300_000_000).contains(&pause), "{pause}");
    let session = |head: &str| {
        let line = head.lines().find(|line| line.starts_with("X-Session: "));
        line.unwrap().to_owned()
    };
    let of = |item| {
        let turns = talked(&plan, item, "yes");
        let all: HashSet<String> = turns.iter().map(|turn| session(&turn.2)).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    };
    assert_ne!(of(0), of(1));
}

#[test]
fn turns_after_the_first_share_nothing_with_other_conversations() {
    let mut workload = talk("2", History::Live);
    let tokens = Some(Law::of_lengths("16").unwrap());
    content(&mut workload).shared.groups =
        Some(Groups { count: 1, tokens, popularity: Popularity::Uniform });
    let plan = plan(&workload);
    let mut scratch = Scratch::default();
    let mut walk = plan.walk();
    for expected in [0, 16] {
        let place = walk.step(&plan);
        let written = plan.write(&place, &mut scratch, &mut Vec::new()).unwrap();
        assert_eq!(written.ideal_cached, Some(expected));
        let next =
            plan.write_turn(written.script.unwrap(), b"yes", Some(1), &mut Vec::new()).unwrap();
        assert_eq!(next.ideal_cached, Some(47), "all of its own first turn, and the answer");
    }
}
