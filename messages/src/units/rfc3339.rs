//! RFC 3339 times as microseconds since 1970, by the proleptic Gregorian calendar. Written out here because the libraries that do it also read
//! a clock, and features of one crate anywhere in the workspace are on everywhere.

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;
/// Days from 0000-03-01, with which a year of this reckoning begins, to 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// A time as text, with six digits of a second, in UTC.
pub(super) struct Text([u8; 27]);

impl Text {
    /// None outside of the years 0 to 9999.
    pub fn of(micros: i64) -> Option<Self> {
        let (seconds, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
        let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        if !(0..=9999).contains(&year) {
            return None;
        }
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let mut put = |at: usize, digits: usize, mut number: i64| {
            for place in text[at..at + digits].iter_mut().rev() {
                *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, second / 3600);
        put(14, 2, second / 60 % 60);
        put(17, 2, second % 60);
        put(20, 6, fraction);
        Some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        // Nothing but digits and ASCII marks stands in it.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The time that a text says; digits beyond the sixth of a second are left out.
pub(super) fn read(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.mark(b"-")?;
    let month = rest.number(2)?;
    rest.mark(b"-")?;
    let day = rest.number(2)?;
    rest.mark(b"Tt ")?;
    let hour = rest.number(2)?;
    rest.mark(b":")?;
    let minute = rest.number(2)?;
    rest.mark(b":")?;
    let second = rest.number(2)?;
    let fraction = match rest.mark(b".") {
        Some(_) => rest.fraction()?,
        None => 0,
    };
    let ahead = match rest.mark(b"Zz+-")? {
        sign @ (b'+' | b'-') => {
            let hours = rest.number(2)?;
            rest.mark(b":")?;
            let minutes = rest.number(2)?;
            let known = hours <= 23 && minutes <= 59;
            let ahead = known.then_some((hours * 60 + minutes) * 60)?;
            if sign == b'-' { -ahead } else { ahead }
        }
        _ => 0,
    };
    let days = days(year, month, day);
    // A leap second is the one after it.
    let exists = date(days) == (year, month, day) && hour <= 23 && minute <= 59 && second <= 60;
    let whole = rest.0.is_empty() && exists;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - ahead;
    whole.then_some(seconds * MICROS + fraction)
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |sum, digit| {
            let digit = digit.is_ascii_digit().then(|| i64::from(*digit - b'0'))?;
            Some(sum * 10 + digit)
        })
    }

    fn mark(&mut self, one_of: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        let found = one_of.contains(first).then_some(*first)?;
        self.0 = rest;
        Some(found)
    }

    /// Microseconds.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.0.split_at_checked(digits.count())?;
        self.0 = rest;
        let six = (0..6).fold(0, |sum, at| {
            sum * 10 + digits.get(at).map_or(0, |digit| i64::from(digit - b'0'))
        });
        (!digits.is_empty()).then_some(six)
    }
}

/// Year, month and day of so many days after 1970-01-01. The year begins in March, so that a leap day is its last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, day_of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA + day_of_era - EPOCH
}
