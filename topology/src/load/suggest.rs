//! What was probably meant by a word that is not known.

/// A list up to this long is shown even when it is clear what was meant.
const SHORT: usize = 10;

/// What was probably meant, and all that could be.
pub(crate) fn suggestion<S: AsRef<str>>(given: &str, known: &[S]) -> String {
    let all = known
        .iter()
        .map(AsRef::as_ref)
        .collect::<Vec<_>>()
        .join(", ");
    let nearest = known
        .iter()
        .map(|known| (distance(given, known.as_ref()), known.as_ref()))
        .min();
    match nearest {
        None => "nothing is known here".to_owned(),
        Some((far, near)) if far <= near.len().div_ceil(3) && known.len() > SHORT => {
            format!("did you mean {near}?")
        }
        Some((far, near)) if far <= near.len().div_ceil(3) => {
            format!("did you mean {near}? Known: {all}")
        }
        Some(_) => format!("known: {all}"),
    }
}

/// How many letters are to be put in, left out or changed to make one word of another.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut above_left = i;
        let mut left = i + 1;
        for (to, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let changed = above_left + usize::from(from != *to);
            above_left = *cell;
            left = changed.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
