//! Declarations as C writes them.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a field of a shared layout may be.
pub(crate) trait Field {
    /// Its declaration, without the semicolon.
    fn declare(name: &str) -> String;
    /// Its bytes as they lie in memory.
    fn write(&self, to: &mut [u8]);
}

macro_rules! words {
    ($($type:ty, $c:literal, $word:ident => $value:expr;)*) => {$(
        impl Field for $type {
            fn declare(name: &str) -> String {
                format!("{} {name}", $c)
            }

            fn write(&self, to: &mut [u8]) {
                let $word = self;
                to.copy_from_slice(&$value.to_ne_bytes());
            }
        }
    )*};
}

words! {
    u8, "__u8", word => word;
    u16, "__u16", word => word;
    u32, "__u32", word => word;
    u64, "__u64", word => word;
    AtomicU16, "__u16", word => word.load(Relaxed);
    AtomicU32, "__u32", word => word.load(Relaxed);
    AtomicU64, "__u64", word => word.load(Relaxed);
}

impl<T: Field, const N: usize> Field for [T; N] {
    fn declare(name: &str) -> String {
        T::declare(&format!("{name}[{N}]"))
    }

    fn write(&self, to: &mut [u8]) {
        to.chunks_exact_mut(size_of::<T>()).zip(self).for_each(|(to, each)| each.write(to));
    }
}

/// A number that a program in C is to know by name.
pub(crate) trait Number {
    /// As C writes it, with the suffix of its type.
    fn literal(&self) -> String;
}

macro_rules! numbers {
    ($($type:ty, $suffix:literal;)*) => {$(
        impl Number for $type {
            fn literal(&self) -> String {
                format!(concat!("{}", $suffix), self)
            }
        }
    )*};
}

numbers! {
    u8, "";
    u16, "";
    usize, "";
    u32, "u";
    u64, "ull";
}

/// The lines of a comment of Rust's.
pub(crate) fn comment(indent: &str, lines: &[&str]) -> String {
    match lines {
        [] => String::new(),
        lines => format!("{indent}/*{} */\n", lines.join(&format!("\n{indent} *"))),
    }
}

/// A field of a layout: its comment, its declaration, its name and its offset.
pub(crate) type Placed<'a> = (&'a [&'a str], String, &'a str, usize);

/// A struct, and what Rust says of its layout.
pub(crate) fn layout(name: &str, about: &[&str], bytes: usize, fields: &[Placed]) -> String {
    let mut text = format!("{}struct {name} {{\n", comment("", about));
    for (about, declaration, _, _) in fields {
        text += &comment("    ", about);
        text += &format!("    {declaration};\n");
    }
    text += "};\n";
    text += &format!("_Static_assert(sizeof(struct {name}) == {bytes}, \"{name}\");\n");
    for (_, _, field, offset) in fields {
        text += &format!(
            "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");\n"
        );
    }
    text
}

/// A header of these parts.
pub(crate) fn header(parts: &[String]) -> String {
    let top = "/* Made by the build from the crate abi. */\n#pragma once\n#include <linux/types.h>\n";
    [top].into_iter().chain(parts.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}
