//! The queries by name.

mod first;
mod second;

use crate::feed::Context;

pub fn by_name(name: &str) -> Option<fn(&mut Context)> {
    Some(match name {
        "q01" => first::q01,
        "q02" => first::q02,
        "q03" => first::q03,
        "q04" => first::q04,
        "q05" => first::q05,
        "q06" => first::q06,
        "q07" => first::q07,
        "q08" => first::q08,
        "q09" => first::q09,
        "q10" => first::q10,
        "q11" => first::q11,
        "q12" => second::q12,
        "q13" => second::q13,
        "q14" => second::q14,
        "q15" => second::q15,
        "q16" => second::q16,
        "q17" => second::q17,
        "q18" => second::q18,
        "q19" => second::q19,
        "q20" => second::q20,
        "q21" => second::q21,
        "q22" => second::q22,
        _ => return None,
    })
}
