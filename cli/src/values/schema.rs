//! How values are written in a file of options, as JSON Schema: patterns and examples.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{
    CpuList, Deadline, LawText, Levels, Moment, ShardAsked, Share, Span, TimeOrCount, WarmUp,
};

/// Parts of a duration, such as `1m 30s`.
const DURATION: &str = "[0-9]+ ?[A-Za-zµ]+( ?[0-9]+ ?[A-Za-zµ]+)*";

/// A text of a pattern, of which some are shown.
fn text(pattern: &str, examples: &[&str]) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": format!("^ *({pattern}) *$"),
        "examples": examples,
    })
}

/// The schemas of types, each by its own expression; they stand where they are used.
macro_rules! written {
    ($($type:ty => $schema:expr),+ $(,)?) => {
        $(
            impl JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        )+
    };
}

written! {
    Span => text(DURATION, &["30s", "500ms", "1m 30s"]),
    Deadline => text(&format!("none|{DURATION}"), &["10m", "none"]),
    TimeOrCount => text(&format!("[0-9]+|{DURATION}"), &["4", "2s"]),
    WarmUp => text(&format!("auto|[0-9]+|{DURATION}"), &["5s", "100", "auto"]),
    Share => text("[0-9.eE+-]+ *%?", &["5%", "0.05"]),
    CpuList => text("[0-9]+( *- *[0-9]+)?( *, *[0-9]+( *- *[0-9]+)?)*", &["0,2-5"]),
    ShardAsked => text("auto|[0-9]+ */ *[0-9]+", &["0/3", "auto"]),
    Moment => text(
        "[0-9]+([.][0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?",
        &["1764547200.5", "2025-12-01T00:00:00Z"],
    ),
    LawText => json_schema!({
        "type": ["number", "string"],
        "examples": [512, "normal:512,128", "lognormal:median=400,p95=4000"],
    }),
    Levels => json_schema!({
        "type": ["number", "string"],
        "pattern": r"^ *(auto|[0-9.eE+-]+( *, *[0-9.eE+-]+)*|[0-9.eE+-]+ *\.\. *[0-9.eE+-]+( *\* *[0-9.eE+-]+)?) *$",
        "examples": [8, "1,2,4", "1..64", "1..64*1.5", "auto"],
    }),
}
