//! What is said within a parcel.
//!
//! | message | says |
//! |---|---|
//! | `Name` | what interface a number of the sender's stands for, from here on |
//! | `Flow` | there is this flow, and it is so |
//! | `Fresh` | there have been packets of it lately |
//! | `End` | it has ended |
//! | `Leave` | the sender tells of it no more, for the receiver does |
//! | `Begin` | now all flows of a slice follow |
//! | `Sum` | what the sender has told of a slice up to here comes to this; `whole`: these were all |
//! | `Ask` | the sender wants a slice to be told anew |

use crate::book::Sum;
use crate::bytes::{Reader, put_short};
use crate::shared::Flow;

/// A message. A flow is named by its mark: a number that both ends make of its original tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Name { number: u16, name: String },
    Flow(Flow),
    Fresh { mark: u64, idle: u64 },
    End { mark: u64 },
    Leave { mark: u64 },
    Begin { slice: u8 },
    Sum { slice: u8, whole: bool, sum: Sum },
    Ask { slice: u8 },
}

/// Letters of an interface's name at most: Linux has fewer.
const NAME: usize = 63;

impl Message {
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Message::Name { number, name } => {
                let name = &name.as_bytes()[..name.len().min(NAME)];
                bytes.push(1);
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.push(name.len() as u8);
                bytes.extend_from_slice(name);
            }
            Message::Flow(flow) => {
                bytes.push(2);
                flow.put(bytes);
            }
            Message::Fresh { mark, idle } => {
                bytes.push(3);
                bytes.extend_from_slice(&mark.to_be_bytes());
                put_short(bytes, *idle);
            }
            Message::End { mark } => {
                bytes.push(4);
                bytes.extend_from_slice(&mark.to_be_bytes());
            }
            Message::Leave { mark } => {
                bytes.push(5);
                bytes.extend_from_slice(&mark.to_be_bytes());
            }
            Message::Begin { slice } => bytes.extend([6, *slice]),
            Message::Sum { slice, whole, sum } => {
                bytes.extend([if *whole { 8 } else { 7 }, *slice]);
                put_short(bytes, sum.flows.into());
                bytes.extend_from_slice(&sum.digest.to_be_bytes());
            }
            Message::Ask { slice } => bytes.extend([9, *slice]),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Option<Message> {
        Some(match reader.u8()? {
            1 => {
                let (number, length) = (reader.u16()?, reader.u8()?);
                let name = reader.bytes(Some(usize::from(length)).filter(|length| *length <= NAME)?)?;
                Message::Name { number, name: std::str::from_utf8(name).ok()?.to_owned() }
            }
            2 => Message::Flow(Flow::take(reader)?),
            3 => Message::Fresh { mark: reader.u64()?, idle: reader.short()? },
            4 => Message::End { mark: reader.u64()? },
            5 => Message::Leave { mark: reader.u64()? },
            6 => Message::Begin { slice: reader.u8()? },
            kind @ (7 | 8) => Message::Sum {
                slice: reader.u8()?,
                whole: kind == 8,
                sum: Sum { flows: u32::try_from(reader.short()?).ok()?, digest: reader.u64()? },
            },
            9 => Message::Ask { slice: reader.u8()? },
            _ => return None,
        })
    }

    /// All messages of a parcel; `None` where one of them is none.
    pub(crate) fn all(parcel: &[u8]) -> Option<Vec<Message>> {
        let (mut reader, mut messages) = (Reader(parcel), Vec::new());
        while !reader.is_empty() {
            messages.push(Message::take(&mut reader)?);
        }
        Some(messages)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flow::{Phase, Tuple, tcp::Side};
    use proptest::prelude::*;
    use wire::headers::mapped;

    fn tuple(protocol: u8) -> impl Strategy<Value = Tuple> {
        let address = prop_oneof![any::<[u8; 4]>().prop_map(mapped), any::<[u8; 16]>()];
        (address.clone(), address, any::<[u16; 2]>()).prop_map(move |(source, destination, ports)| Tuple {
            source,
            destination,
            source_port: ports[0],
            destination_port: ports[1],
            protocol,
            table: 0,
        })
    }

    fn side() -> impl Strategy<Value = Side> {
        (any::<[u32; 2]>(), any::<u16>(), 0u8..16, any::<u8>())
            .prop_map(|([end, ack], window, scale, flags)| Side { end, ack, window, scale, flags })
    }

    pub(crate) fn flows() -> impl Strategy<Value = Flow> {
        prop_oneof![Just(6u8), Just(17), Just(58), Just(50)].prop_flat_map(|protocol| {
            let phase = if protocol == 6 { 0..6usize } else { 6..9 };
            let reply = proptest::option::of(tuple(protocol));
            let rest = (any::<[u16; 2]>(), any::<u8>(), any::<u64>(), any::<u32>(), any::<bool>());
            (tuple(protocol), reply, phase, [side(), side()], rest).prop_map(
                move |(original, reply, phase, sides, (ports, mark, idle, age, carried))| Flow {
                    original,
                    reply: reply.unwrap_or(original.reversed()),
                    phase: Phase::ALL[phase],
                    tcp: (protocol == 6).then_some(sides),
                    ports,
                    mark,
                    idle,
                    age: age.into(),
                    carried,
                },
            )
        })
    }

    fn messages() -> impl Strategy<Value = Message> {
        let sum = (any::<u32>(), any::<u64>()).prop_map(|(flows, digest)| Sum { flows, digest });
        prop_oneof![
            (any::<u16>(), "[a-z0-9.]{0,15}").prop_map(|(number, name)| Message::Name { number, name }),
            flows().prop_map(Message::Flow),
            (any::<u64>(), any::<u64>()).prop_map(|(mark, idle)| Message::Fresh { mark, idle }),
            any::<u64>().prop_map(|mark| Message::End { mark }),
            any::<u64>().prop_map(|mark| Message::Leave { mark }),
            any::<u8>().prop_map(|slice| Message::Begin { slice }),
            (any::<u8>(), any::<bool>(), sum).prop_map(|(slice, whole, sum)| Message::Sum {
                slice,
                whole,
                sum
            }),
            any::<u8>().prop_map(|slice| Message::Ask { slice }),
        ]
    }

    proptest! {
        #[test]
        fn messages_are_read_as_written(all in proptest::collection::vec(messages(), 0..6)) {
            let mut parcel = Vec::new();
            all.iter().for_each(|message| message.put(&mut parcel));
            prop_assert_eq!(Message::all(&parcel), Some(all));
        }

        #[test]
        fn what_is_cut_or_changed_is_read_as_something_else_or_not_at_all(
            message in messages(), at: usize, bit in 0u8..8,
        ) {
            let mut parcel = Vec::new();
            message.put(&mut parcel);
            let at = at % parcel.len();
            prop_assert_ne!(Message::all(&parcel[..at]), Some(vec![message.clone()]));
            parcel[at] ^= 1 << bit;
            prop_assert_ne!(Message::all(&parcel), Some(vec![message]));
        }
    }
}
