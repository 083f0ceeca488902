//! From records to entries, by the format that was given or found out.

use serde_json::value::RawValue;

use super::columns::Columns;
use super::entry::{Content, Entry, Turn};
use super::fields::{self, check_media};
use super::members::{Members, Value, fault};
use super::normal::{self, of, optional};
use super::records::Record;
use super::{conversation, openai};
use crate::workload::{DataSpec, Format};

/// What was left out of records that were kept, or left out without being wrong.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// What the assistant said before the user.
    pub(super) leading_answers: u64,
    /// What the assistant said last in a list of messages.
    pub(super) last_answers: u64,
    /// Members of bodies that the run sets for itself.
    pub(super) set_by_the_run: u64,
    /// Requests that failed when they were recorded.
    pub(super) failed: u64,
    /// Members of the first record that are not used.
    pub(super) unused: Option<String>,
}

/// What makes entries of records.
pub(super) struct Reader<'a> {
    spec: &'a DataSpec,
    format: Format,
    pub(super) remarks: Remarks,
    /// Whether a record was read.
    began: bool,
    /// Names given to fields that no record had yet.
    unseen: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    /// A reader of what `spec` says.
    ///
    /// # Errors
    /// Names given to fields of a format that has its own.
    pub(super) fn new(spec: &'a DataSpec) -> Result<Self, String> {
        if !spec.fields.is_empty() && has_own_names(spec.format) {
            return Err(format!(
                "--field does not go with --data-format {0}, whose fields have their names: leave one \
                 of the two out",
                spec.format
            ));
        }
        let unseen = spec.fields.iter().map(|(_, name)| name.as_str()).collect();
        Ok(Self { spec, format: spec.format, remarks: Remarks::default(), began: false, unseen })
    }

    /// The format, once it is known.
    pub(super) const fn format(&self) -> Format {
        self.format
    }

    /// A name given to a field that no record had.
    pub(super) fn unseen(&self) -> Option<&str> {
        self.unseen.first().copied()
    }

    /// The entry of a record; `None` if it is one to leave out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn entry(&mut self, record: Record) -> Result<Option<Entry>, String> {
        let members = match record {
            Record::Text(text) => {
                self.format = Format::Lines;
                return Ok(Some(one(Content::Text(text))));
            }
            Record::Json(text) if self.format == Format::RawPayload => {
                let raw: Box<RawValue> =
                    serde_json::from_str(&text).map_err(|error| fault(&error))?;
                openai::check_body(&raw)?;
                return Ok(Some(one(Content::Body(raw))));
            }
            Record::Json(text) => Members::parse(&text)?,
            Record::Row(members) => members,
        };
        self.unseen.retain(|name| !members.has(name));
        let detected = match self.format {
            Format::Auto if self.spec.fields.is_empty() => fields::detect(&members)?,
            Format::Auto => Format::Columns,
            format => format,
        };
        let entry = self.of_members(detected, &members)?;
        self.format = detected;
        if !self.began && !has_own_names(detected) {
            self.remarks.unused = fields::unused(self.spec, detected, &members);
        }
        self.began = true;
        Ok(entry)
    }

    fn of_members(&mut self, format: Format, members: &Members) -> Result<Option<Entry>, String> {
        let (spec, remarks) = (self.spec, &mut self.remarks);
        match format {
            Format::Native => native(members, spec).map(Some),
            Format::ShareGpt => {
                check_media(members)?;
                conversation::sharegpt(members, spec.ignore_times, remarks).map(Some)
            }
            Format::OpenaiMessages => {
                check_media(members)?;
                openai::request(members, spec.ignore_times, remarks).map(Some)
            }
            Format::MultiTurn => multi_turn(members, spec, remarks).map(Some),
            Format::InputsJson => inputs(members).map(Some),
            Format::RawPayload => Err("a body is JSON, not a row of a table".to_owned()),
            _ => Columns { spec, format, members }.entry(remarks),
        }
    }
}

/// Whether an entry of this format may go on in further lines with its session's id.
pub(super) const fn goes_on(format: Format) -> bool {
    matches!(
        format,
        Format::SingleTurn
            | Format::Mooncake
            | Format::Lengths
            | Format::Columns
            | Format::VllmCustom
    )
}

/// Whether each record of this format is a whole conversation, whose session's id is its own.
pub(super) const fn is_whole(format: Format) -> bool {
    matches!(format, Format::MultiTurn | Format::InputsJson)
}

const fn has_own_names(format: Format) -> bool {
    matches!(
        format,
        Format::Native
            | Format::Lines
            | Format::ShareGpt
            | Format::OpenaiMessages
            | Format::MultiTurn
            | Format::InputsJson
            | Format::RawPayload
    )
}

fn one(content: Content) -> Entry {
    Entry { turns: vec![Turn::new(content)], ..Entry::default() }
}

fn native(members: &Members, spec: &DataSpec) -> Result<Entry, String> {
    if spec.ignore_times && members.has("timestamp") {
        return normal::read(&members.without("timestamp"), spec.block_size);
    }
    normal::read(members, spec.block_size)
}

/// AIPerf's conversations: the first turn may have a time, the others a delay.
fn multi_turn(members: &Members, spec: &DataSpec, remarks: &mut Remarks) -> Result<Entry, String> {
    let turns = members.get("turns").ok_or("no `turns`")?;
    let turns = turns.json::<Vec<Members>>().map_err(of("turns"))?;
    let mut entry = Entry::default();
    for (position, members) in turns.iter().enumerate() {
        let wrong = |reason| format!("turn {}: {reason}", position + 1);
        let columns = Columns { spec, format: Format::SingleTurn, members };
        let read = columns.entry(remarks).map_err(wrong)?;
        let Some(mut turn) = read else { continue };
        match (turn.timestamp_ns, position) {
            (time, 0) => entry.timestamp_ns = time,
            (None, _) => {}
            (Some(_), _) => {
                let reason = "a turn after the first has a `delay`, not a `timestamp`";
                return Err(wrong(reason.to_owned()));
            }
        }
        entry.turns.append(&mut turn.turns);
    }
    if entry.turns.is_empty() {
        return Err("`turns` is empty".to_owned());
    }
    entry.session = optional(members, "session_id", Value::name)?;
    Ok(entry)
}

/// AIPerf's sessions of bodies.
fn inputs(members: &Members) -> Result<Entry, String> {
    let payloads = members
        .get("payloads")
        .ok_or_else(|| format!("no `payloads`; there are {}", members.list()))?;
    let payloads = payloads.json::<Vec<Box<RawValue>>>().map_err(of("payloads"))?;
    let mut entry = Entry::default();
    for (position, payload) in payloads.into_iter().enumerate() {
        let wrong = |reason| format!("payload {}: {reason}", position + 1);
        openai::check_body(&payload).map_err(wrong)?;
        entry.turns.push(Turn::new(Content::Body(payload)));
    }
    if entry.turns.is_empty() {
        return Err("`payloads` is empty".to_owned());
    }
    entry.session = optional(members, "session_id", Value::name)?;
    Ok(entry)
}
