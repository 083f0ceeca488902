//! Rows of Parquet files, where the tool was built to read them.

use std::fs::File;

use super::error::DataError;
use super::records::Each;

/// Hands every row of a file to `each`.
///
/// # Errors
/// Always: the reader is not there.
#[cfg(not(feature = "parquet"))]
pub(super) fn read(name: &str, _file: File, _each: &mut Each<'_>) -> Result<(), DataError> {
    let reason = "this tool was built without the feature parquet: build it with \
                  --features parquet, or turn the file into JSON lines or CSV";
    Err(DataError::Unfit { file: name.to_owned(), reason: reason.to_owned() })
}

#[cfg(feature = "parquet")]
pub(super) use rows::read;

#[cfg(feature = "parquet")]
mod rows {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use serde_json::Value;

    use super::super::records::{Place, Record};
    use super::super::report::Unit;
    use super::{DataError, Each, File};

    /// Hands every row of a file to `each`.
    ///
    /// # Errors
    /// That the file cannot be read.
    pub(in super::super) fn read(
        name: &str,
        file: File,
        each: &mut Each<'_>,
    ) -> Result<(), DataError> {
        let unfit = |error| DataError::Unfit { file: name.to_owned(), reason: format!("{error}") };
        let file = SerializedFileReader::new(file).map_err(unfit)?;
        let rows = file.get_row_iter(None).map_err(unfit)?;
        for (number, row) in (1..).zip(rows) {
            let record = Record::Json(object(&row.map_err(unfit)?).to_string());
            if each(Place { file: name, unit: Unit::Row, number }, Ok(record)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn object(row: &Row) -> Value {
        let members = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        Value::Object(members.collect())
    }

    /// Times and dates are written as text; a number that is not finite becomes null.
    fn value(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Bool(value) => (*value).into(),
            Field::Byte(value) => (*value).into(),
            Field::Short(value) => (*value).into(),
            Field::Int(value) => (*value).into(),
            Field::Long(value) => (*value).into(),
            Field::UByte(value) => (*value).into(),
            Field::UShort(value) => (*value).into(),
            Field::UInt(value) => (*value).into(),
            Field::ULong(value) => (*value).into(),
            Field::Float(value) => (*value).into(),
            Field::Double(value) => (*value).into(),
            Field::Str(value) => value.as_str().into(),
            Field::Group(row) => object(row),
            Field::ListInternal(list) => list.elements().iter().map(value).collect(),
            other => other.to_string().into(),
        }
    }
}
