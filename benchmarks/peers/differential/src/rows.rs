//! The tables' rows, with types as in the SQL: keys are BIGINT, decimals count hundredths, dates
//! count days since 1970, texts of a fixed or small greatest length are arrays padded with zeros.
//!
//! A file holds a table by columns, in the order of the fields here: the number of rows as u64, then
//! each column; numbers little-endian, texts as n + 1 offsets (i32) and their bytes.

use std::fs;
use std::path::Path;

/// What is left to read of a table's file.
pub struct Reader {
    bytes: Vec<u8>,
    at: usize,
    pub rows: usize,
}

impl Reader {
    pub fn open(path: &Path) -> Reader {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let rows = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        Reader { bytes, at: 8, rows }
    }

    fn take(&mut self, size: usize) -> &[u8] {
        self.at += size;
        &self.bytes[self.at - size..self.at]
    }

    fn offsets(&mut self) -> Vec<usize> {
        let size = 4 * (self.rows + 1);
        let bytes = self.take(size).chunks_exact(4);
        bytes
            .map(|b| i32::from_le_bytes(b.try_into().unwrap()) as usize)
            .collect()
    }

    fn texts<T>(&mut self, make: impl Fn(&[u8]) -> T) -> Vec<T> {
        let offsets = self.offsets();
        let bytes = self.take(offsets[offsets.len() - 1]);
        offsets
            .windows(2)
            .map(|pair| make(&bytes[pair[0]..pair[1]]))
            .collect()
    }
}

/// A type of the values of a column.
trait Column: Sized {
    fn read(reader: &mut Reader) -> Vec<Self>;
}

impl Column for i64 {
    fn read(reader: &mut Reader) -> Vec<Self> {
        let size = 8 * reader.rows;
        let bytes = reader.take(size).chunks_exact(8);
        bytes
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }
}

impl Column for i32 {
    fn read(reader: &mut Reader) -> Vec<Self> {
        let size = 4 * reader.rows;
        let bytes = reader.take(size).chunks_exact(4);
        bytes
            .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }
}

impl Column for String {
    fn read(reader: &mut Reader) -> Vec<Self> {
        reader.texts(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

impl<const N: usize> Column for [u8; N] {
    fn read(reader: &mut Reader) -> Vec<Self> {
        reader.texts(|bytes| {
            let mut padded = [0; N];
            padded[..bytes.len()].copy_from_slice(bytes);
            padded
        })
    }
}

pub trait Table: differential_dataflow::Data {
    /// The file's name without its ending.
    const NAME: &'static str;
    /// Which count of a step is this table's.
    const PLACE: usize;
    fn read(reader: &mut Reader) -> Vec<Self>;
}

macro_rules! table {
    ($table:ident $name:literal $place:literal { $($column:ident: $kind:ty,)* }) => {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(dead_code)] // whole rows arrive, whatever the queries read of them
        pub struct $table { $(pub $column: $kind,)* }

        impl Table for $table {
            const NAME: &'static str = $name;
            const PLACE: usize = $place;
            fn read(reader: &mut Reader) -> Vec<Self> {
                $(let mut $column = <$kind as Column>::read(reader).into_iter();)*
                (0..reader.rows).map(|_| $table { $($column: $column.next().unwrap(),)* }).collect()
            }
        }
    };
}

pub type Name = [u8; 25];

table! { Region "region" 0 { region: i64, name: Name, comment: String, } }

table! { Nation "nation" 1 { nation: i64, name: Name, region: i64, comment: String, } }

table! { Supplier "supplier" 2 {
    supplier: i64, name: Name, address: String, nation: i64, phone: [u8; 15], balance: i64,
    comment: String,
} }

table! { Customer "customer" 3 {
    customer: i64, name: Name, address: String, nation: i64, phone: [u8; 15], balance: i64,
    segment: [u8; 10], comment: String,
} }

table! { Part "part" 4 {
    part: i64, name: String, manufacturer: Name, brand: [u8; 10], kind: Name, size: i32,
    container: [u8; 10], price: i64, comment: String,
} }

table! { PartSupp "partsupp" 5 {
    part: i64, supplier: i64, available: i32, cost: i64, comment: String,
} }

table! { Order "orders" 6 {
    order: i64, customer: i64, status: [u8; 1], price: i64, date: i32, priority: [u8; 15],
    clerk: [u8; 15], ship_priority: i32, comment: String,
} }

table! { LineItem "lineitem" 7 {
    order: i64, part: i64, supplier: i64, number: i32, quantity: i64, price: i64, discount: i64,
    tax: i64, flag: [u8; 1], status: [u8; 1], shipped: i32, committed: i32, received: i32,
    instruction: Name, mode: [u8; 10], comment: String,
} }

impl LineItem {
    /// l_extendedprice * (1 - l_discount), in ten-thousandths.
    pub fn revenue(&self) -> isize {
        (self.price * (100 - self.discount)) as isize
    }
}

/// Days since 1970-01-01. Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
pub const fn days(year: i32, month: i32, day: i32) -> i32 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year of a day. Source: as `days`.
pub fn year(days: i32) -> i32 {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted - era * 146_097;
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    era * 400 + years + (of_year >= 306) as i32
}

/// Year, month and day as in ISO 8601.
pub fn date_text(date: i32) -> String {
    let found = year(date);
    let month = (1..=12)
        .rev()
        .find(|&month| days(found, month, 1) <= date)
        .unwrap();
    format!(
        "{found:04}-{month:02}-{:02}",
        date - days(found, month, 1) + 1
    )
}

/// A padded text without its padding.
pub fn text(padded: &[u8]) -> String {
    let end = padded
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(padded.len());
    String::from_utf8(padded[..end].to_vec()).unwrap()
}

/// Whether a padded text is that one.
pub fn is(padded: &[u8], wanted: &str) -> bool {
    let (head, rest) = padded.split_at(wanted.len().min(padded.len()));
    head == wanted.as_bytes() && rest.first().is_none_or(|&byte| byte == 0)
}

/// A decimal with so many digits after the point.
pub fn decimal(value: isize, digits: u32) -> String {
    let scale = 10usize.pow(digits);
    let sign = if value < 0 { "-" } else { "" };
    let size = value.unsigned_abs();
    format!(
        "{sign}{}.{:0width$}",
        size / scale,
        size % scale,
        width = digits as usize
    )
}
