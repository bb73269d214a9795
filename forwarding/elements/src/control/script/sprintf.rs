//! `sprintf`: C's conversions of whole numbers and texts.

use graph::arguments::parse_integer;
use graph::language::first_word;

use super::text;

/// Widths and precisions beyond this are none.
const WIDEST: usize = 4096;

/// A conversion: `%-08.3x`.
#[derive(Default)]
struct Form {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    prefix: bool,
    width: usize,
    precision: Option<usize>,
}

/// The format, the first word of `argument`, with its conversions replaced by the words that
/// follow.
pub(super) fn sprintf(argument: &str) -> Result<String, String> {
    let wrong = || "syntax error".to_owned();
    let (format, mut rest) = first_word(argument).unwrap_or_default();
    let mut word = || {
        let (word, after) = first_word(rest).unwrap_or_default();
        rest = after;
        word
    };
    let format = text(format);
    let mut signs = format.chars().peekable();
    let mut out = String::new();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        let mut form = Form::default();
        while let Some(flag) = signs.next_if(|sign| "0#- +".contains(*sign)) {
            match flag {
                '0' => form.zeros = true,
                '#' => form.prefix = true,
                '-' => form.left = true,
                ' ' => form.space = true,
                _ => form.plus = true,
            }
        }
        let mut number = |signs: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Option<i64> {
            if signs.next_if_eq(&'*').is_some() {
                return super::functions::whole(word());
            }
            let mut value = 0i64;
            while let Some(digit) = signs.peek().and_then(|sign| sign.to_digit(10)) {
                value = (value * 10 + i64::from(digit)).min(WIDEST as i64 + 1);
                signs.next();
            }
            Some(value)
        };
        let width = number(&mut signs).ok_or_else(wrong)?;
        form.left |= width < 0;
        form.width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        if signs.next_if_eq(&'.').is_some() {
            let precision = number(&mut signs).ok_or_else(wrong)?;
            form.precision = Some(usize::try_from(precision).map_err(|_| wrong())?);
        }
        if form.width > WIDEST || form.precision.is_some_and(|precision| precision > WIDEST) {
            return Err(wrong());
        }
        let mut short = false;
        while let Some(size) = signs.next_if(|sign| "hlLq".contains(*sign)) {
            short = size == 'h';
        }
        match signs.next() {
            Some('%') => out.push('%'),
            Some('s') => form.text(&text(word()), &mut out),
            Some(sign @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X')) => {
                let value = parse_integer(word(), i64::MIN.into(), u64::MAX.into()).map_err(|_| wrong())?;
                form.number(sign, value, short, &mut out).ok_or_else(wrong)?;
            }
            _ => return Err(wrong()),
        }
    }
    if rest.is_empty() { Ok(out) } else { Err(wrong()) }
}

impl Form {
    fn text(&self, text: &str, out: &mut String) {
        let kept: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        self.pad("", &kept, false, out);
    }

    /// `None` where the number is not one of the conversion's.
    fn number(&self, conversion: char, value: i128, short: bool, out: &mut String) -> Option<()> {
        let signed = matches!(conversion, 'd' | 'i');
        let (negative, amount) = if signed {
            let value = i64::try_from(value).ok()?;
            let value = if short { i64::from(value as i16) } else { value };
            (value < 0, value.unsigned_abs())
        } else {
            let value = u64::try_from(value).ok()?;
            (false, if short { u64::from(value as u16) } else { value })
        };
        let digits = match conversion {
            'o' => format!("{amount:o}"),
            'x' => format!("{amount:x}"),
            'X' => format!("{amount:X}"),
            _ => amount.to_string(),
        };
        let digits = match self.precision {
            Some(0) if amount == 0 => String::new(),
            Some(precision) => format!("{digits:0>precision$}"),
            None => digits,
        };
        let sign = match conversion {
            'd' | 'i' if negative => "-",
            'd' | 'i' if self.plus => "+",
            'd' | 'i' if self.space => " ",
            'x' if self.prefix && amount != 0 => "0x",
            'X' if self.prefix && amount != 0 => "0X",
            'o' if self.prefix && !digits.starts_with('0') => "0",
            _ => "",
        };
        self.pad(sign, &digits, self.zeros && self.precision.is_none(), out);
        Some(())
    }

    fn pad(&self, sign: &str, body: &str, zeros: bool, out: &mut String) {
        let missing = self.width.saturating_sub(sign.len() + body.chars().count());
        let fill = |out: &mut String, with: &str| out.push_str(&with.repeat(missing));
        match (self.left, zeros) {
            (true, _) => {
                out.push_str(sign);
                out.push_str(body);
                fill(out, " ");
            }
            (false, true) => {
                out.push_str(sign);
                fill(out, "0");
                out.push_str(body);
            }
            (false, false) => {
                fill(out, " ");
                out.push_str(sign);
                out.push_str(body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conversions_are_c_s() {
        for (argument, value) in [
            (r#""%05x" 127"#, "0007f"),
            (r#""%d%%|%3d|%-3d|" -1 5 6"#, "-1%|  5|6  |"),
            (r#""%+d % d %#x %#o" 1 2 255 8"#, "+1  2 0xff 010"),
            (r#""%.3d %5.1s|" 7 abc"#, "007     a|"),
            (r#""%*d|%-*d|" 4 1 4 2"#, "   1|2   |"),
            (r#""%hu %hd" 65537 65535"#, "1 -1"),
            (r#""%llu" 18446744073709551615"#, "18446744073709551615"),
            (r#""a b" "#, "a b"),
        ] {
            assert_eq!(sprintf(argument).as_deref(), Ok(value), "{argument}");
        }
        for wrong in [r#""%d""#, r#""%d" x"#, r#""%u" -1"#, r#""%f" 1"#, r#""%d" 1 2"#, r#""%99999d" 1"#, "%"]
        {
            assert_eq!(sprintf(wrong), Err("syntax error".to_owned()), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_format_is_done_or_refused(argument in r#""[%0-9*.#+ -]{0,6}[dxsuohl%]{0,2}[%a-z]{0,4}" [-0-9a ]{0,8}"#) {
            let _ = sprintf(&argument);
        }
    }
}
