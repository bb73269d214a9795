//! What IP and TCP options have in common as text: parts between `;` (or `,`), those without a name
//! of their own as `98`, or `99=0:5:10` with their data.

/// Options behind one another take no more room than this.
const ROOM: usize = 40;

/// A text that is read from its front.
#[derive(Clone, Copy)]
pub(super) struct Front<'a>(pub &'a str);

impl<'a> Front<'a> {
    /// Takes `text` off if it stands there.
    pub fn take(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a decimal number off.
    pub fn number(&mut self) -> Option<u32> {
        let end = self.0.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(self.0.len());
        let number = self.0[..end].parse().ok()?;
        self.0 = &self.0[end..];
        Some(number)
    }

    /// Takes a number off that fits into a byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.number().and_then(|number| u8::try_from(number).ok())
    }

    /// Takes `1.2.3.4` off.
    pub fn address(&mut self) -> Option<[u8; 4]> {
        let mut address = [0; 4];
        for (index, byte) in address.iter_mut().enumerate() {
            if index > 0 && !self.take(".") {
                return None;
            }
            *byte = self.byte()?;
        }
        Some(address)
    }

    /// Whether a digit comes next.
    pub fn at_digit(&self) -> bool {
        self.0.starts_with(|sign: char| sign.is_ascii_digit())
    }

    /// Takes an option off that has no name: its number, and its data.
    pub fn nameless(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.push(self.byte()?);
        if self.take("=") {
            let length = out.len();
            out.push(0);
            loop {
                out.push(self.byte()?);
                if !self.take(":") {
                    break;
                }
            }
            out[length] = u8::try_from(out.len() - length + 1).ok()?;
        }
        Some(())
    }
}

/// Reads options: `one` reads one of them, and the separators are read here. `None` when anything
/// is wrong, or they are too long for a header.
pub(super) fn read(
    text: &str,
    mut one: impl FnMut(&mut Front<'_>, &mut Vec<u8>) -> Option<()>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text.is_empty() || text == "." {
        return Some(out);
    }
    let mut front = Front(text);
    loop {
        one(&mut front, &mut out)?;
        if front.0.is_empty() {
            break;
        }
        if !front.take(";") && !front.take(",") {
            return None;
        }
    }
    // Padding in front may go.
    while out.len() > ROOM && out[0] == 1 {
        out.remove(0);
    }
    (out.len() <= ROOM).then_some(out)
}

/// An option without a name, with its data.
pub(super) fn nameless(option: &[u8]) -> String {
    let mut text = option[0].to_string();
    for (index, byte) in option.iter().skip(2).enumerate() {
        text.push(if index == 0 { '=' } else { ':' });
        text += &byte.to_string();
    }
    text
}
