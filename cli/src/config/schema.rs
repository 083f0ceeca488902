//! The JSON Schema of a file of options, from the types that read it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{CurveOptions, Options, SearchOptions};
use crate::exit::Failure;

/// The schema (draft 2020-12) of a file for one command that sends a load, or for any of them.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn schema(sweep: bool, search: bool) -> Result<Value, Failure> {
    let mut whole = of::<Options>()?;
    if sweep {
        add(&mut whole, of::<CurveOptions>()?);
    }
    if search {
        add(&mut whole, of::<SearchOptions>()?);
    }
    whole.insert("title".into(), "Options of tokclock".into());
    whole.insert(
        "description".into(),
        "A file for --config of tokclock run, sweep and search. Keys are the names of the options; what \
         is typed wins."
            .into(),
    );
    close(&mut whole);
    if let Some(class) = whole.get_mut("$defs").and_then(|defs| defs.get_mut("ClassOptions")) {
        class.as_object_mut().into_iter().for_each(close);
    }
    let mut whole = Value::Object(whole);
    tidy(&mut whole);
    Ok(whole)
}

/// The schema of some options.
fn of<T: JsonSchema>() -> Result<Map<String, Value>, Failure> {
    let generator = SchemaSettings::draft2020_12().into_generator();
    match generator.into_root_schema_for::<T>().to_value() {
        Value::Object(schema) => Ok(schema),
        _ => Err(Failure::could_not_run("the schema of the options is none: this is a bug")),
    }
}

/// Adds the members of another schema.
fn add(whole: &mut Map<String, Value>, mut other: Map<String, Value>) {
    let more = other.remove("properties");
    let (Some(Value::Object(own)), Some(Value::Object(more))) = (whole.get_mut("properties"), more)
    else {
        return;
    };
    own.extend(more);
}

/// No other members, and none that must be there.
fn close(schema: &mut Map<String, Value>) {
    schema.insert("additionalProperties".into(), json!(false));
    schema.remove("required");
}

/// Takes out what no TOML file can say, which is null, and what says nothing: lists that are empty by
/// default.
fn tidy(schema: &mut Value) {
    let Value::Object(members) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(tidy);
        }
        return;
    };
    members.remove("default");
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            members.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|one| *one != json!({"type": "null"}));
        if let [Value::Object(one)] = choices.as_mut_slice() {
            let one = std::mem::take(one);
            members.remove("anyOf");
            members.extend(one);
        }
    }
    // What is called `default` or `type` by a user's key is a property and not a word of the schema.
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for word in ["$defs", "items", "anyOf", "additionalProperties"] {
        match members.get_mut(word) {
            Some(Value::Object(defs)) if word == "$defs" => defs.values_mut().for_each(tidy),
            Some(other) => tidy(other),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn every_option_that_a_file_can_hold_is_in_it_and_nothing_else() {
        let schema = schema(true, true).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let mut command = Options::augment_args(clap::Command::new("all"));
        let names = |command: &clap::Command| -> Vec<String> {
            command.get_arguments().filter_map(|one| one.get_long()).map(str::to_owned).collect()
        };
        let mut all = names(&command);
        for more in [CurveOptions::augment_args, SearchOptions::augment_args] {
            command = more(clap::Command::new("more"));
            all.extend(names(&command));
        }
        all.push("url".into());
        for name in &all {
            let property = properties.get(name).unwrap_or_else(|| panic!("no {name}"));
            assert!(property["description"].is_string(), "{name}: {property}");
            let is_typed =
                ["type", "anyOf", "$ref"].iter().any(|word| property.get(word).is_some());
            assert!(is_typed, "{name}: {property}");
        }
        for name in properties.keys() {
            assert!(all.contains(name), "{name} is no option");
        }
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let class = &schema["$defs"]["ClassOptions"];
        assert_eq!(class["additionalProperties"], false);
        assert!(
            class["properties"]["isl"].is_object() && class["properties"]["weight"].is_object()
        );
        assert!(!schema.to_string().contains("null"), "{schema}");
    }

    #[test]
    fn values_are_described_by_patterns_and_examples() {
        let schema = schema(false, false).unwrap();
        let property = |name: &str| schema["properties"][name].clone();
        assert!(schema["properties"].get("repeat").is_none(), "that is of sweep");
        assert_eq!(property("drain")["examples"][0], "30s");
        assert_eq!(property("isl")["type"], json!(["number", "string"]));
        assert_eq!(property("no-stream")["type"], "boolean");
        assert_eq!(property("seed")["type"], "integer");
        assert_eq!(property("header")["items"]["type"], "string");
        assert_eq!(property("label")["type"], "object");
    }
}
