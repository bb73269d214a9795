//! How shared facts are declared.

/// Named constants: the function gives them as C's `PREFIX_NAME`.
macro_rules! constants {
    ($function:ident, $prefix:literal; $($(#[doc = $doc:literal])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[doc = $doc])* pub const $name: $type = $value;)*

        /// The constants in C.
        pub(crate) fn $function() -> String {
            let mut text = String::new();
            $(
                text += &$crate::c::comment("", &[$($doc),*]);
                let value = $crate::c::Number::literal(&$name);
                text += &format!("#define {}{} {value}\n", $prefix, stringify!($name));
            )*
            text
        }
    };
}

/// An enum whose numbers follow each other, with a name and a sentence for each: a line an entry.
/// In C its constants are `PREFIX_NAME`, and there is one more, which says how many they are.
macro_rules! numbered {
    (
        $function:ident, $prefix:literal, $count:literal;
        $(#[$meta:meta])* pub enum $Enum:ident as $c:literal {
            $($(#[$variant_meta:meta])* $Variant:ident $name:literal $description:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $Enum {
            $(#[doc = $description] $(#[$variant_meta])* $Variant,)*
        }

        impl $Enum {
            /// Every one, in the order of the numbers.
            pub const ALL: [$Enum; $Enum::COUNT] = [$($Enum::$Variant),*];

            /// How many there are; every number is below it.
            pub const COUNT: usize = [$($name),*].len();

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)*
                }
            }

            /// One sentence for an operator.
            pub const fn description(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $description,)*
                }
            }

            /// The one of a number, as C gives it.
            #[inline(always)]
            pub const fn from_number(number: usize) -> Option<$Enum> {
                match number {
                    $(number if number == $Enum::$Variant as usize => Some($Enum::$Variant),)*
                    _ => None,
                }
            }

            /// The one of a name.
            pub fn from_name(name: &str) -> Option<$Enum> {
                $Enum::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        /// The enum in C.
        pub(crate) fn $function() -> String {
            let mut text = format!("enum {} {{\n", $c);
            for one in $Enum::ALL {
                let name = one.name().to_uppercase();
                text += &format!("    {}{name} = {}, /* {} */\n", $prefix, one as u8, one.description());
            }
            text + &format!("    {} = {},\n}};\n", $count, $Enum::COUNT)
        }
    };
}

/// Structs that both sides read and write in shared memory.
macro_rules! layouts {
    ($function:ident; $(
        $(#[doc = $doc:literal])*
        $(#[derive($($derive:ident),*)])?
        $(#[align($align:literal)])?
        pub struct $Name:ident as $c:literal {
            $($(#[doc = $field_doc:literal])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            $(#[derive($($derive),*)])?
            #[repr(C $(, align($align))?)]
            pub struct $Name {
                $($(#[doc = $field_doc])* pub $field: $type,)*
            }

            impl $Name {
                /// Its bytes as they lie in memory; those between its fields are 0.
                pub fn bytes(&self) -> [u8; size_of::<$Name>()] {
                    let mut bytes = [0; size_of::<$Name>()];
                    $crate::c::Field::write(self, &mut bytes);
                    bytes
                }
            }

            impl $crate::c::Field for $Name {
                fn declare(name: &str) -> String {
                    format!("struct {} {name}", $c)
                }

                fn write(&self, to: &mut [u8]) {
                    $(
                        let at = std::mem::offset_of!($Name, $field);
                        $crate::c::Field::write(&self.$field, &mut to[at..at + size_of::<$type>()]);
                    )*
                }
            }
        )*

        /// The structs in C.
        pub(crate) fn $function() -> String {
            let mut text = String::new();
            $(
                let fields = [$((
                    &[$($field_doc),*][..],
                    <$type as $crate::c::Field>::declare(stringify!($field)),
                    stringify!($field),
                    std::mem::offset_of!($Name, $field),
                )),*];
                text += &$crate::c::layout($c, &[$($doc),*], size_of::<$Name>(), &fields);
            )*
            text
        }
    };
}
