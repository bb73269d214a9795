//! VRFs (`ip link add blue type vrf table 1001`): a device that has interfaces, and says which
//! table routes what comes in by them. Frames enter and leave by the members, so the device itself
//! is Linux's.

use super::{Around, Is, Kind, NotOurs, Place, Said, Told, attribute};
use crate::model::{Link, Links};
use crate::netlink::u32_value;

const IFLA_VRF_TABLE: u16 = 1;

/// What is said of a VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vrf {
    /// The number of its table.
    pub table: u32,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a vrf is Linux's")]
struct Device;

impl Told for Vrf {
    const NAMES: &'static [&'static str] = &["vrf"];

    fn read(said: &Said<'_>) -> Option<Vrf> {
        let table = attribute(said.data, IFLA_VRF_TABLE).and_then(u32_value)?;
        Some(Vrf { table })
    }
}

impl Kind for Vrf {
    fn place<'a>(&self, _: &'a Link, _: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        Err(Device.into())
    }

    fn leaves_members_alone(&self) -> bool {
        true
    }
}

impl Link {
    /// The number of its table, if it is a VRF.
    pub fn vrf(&self) -> Option<u32> {
        if let Is::Vrf(vrf) = &self.is { Some(vrf.table) } else { None }
    }
}

impl Links {
    /// The VRF that an interface belongs to.
    pub fn vrf_of(&self, link: &Link) -> Option<&Link> {
        self.by_index(link.master?).filter(|master| master.vrf().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{link, place, told};

    #[test]
    fn a_vrf_says_its_table_and_is_linuxs() {
        let vrf = told("vrf", &[(IFLA_VRF_TABLE, &1001u32.to_ne_bytes())]);
        assert_eq!(vrf, Vrf { table: 1001 }.into());
        let device = Link { is: vrf, ..link(1) };
        assert_eq!(device.vrf(), Some(1001));
        assert_eq!(place(&["e1"], &[device]), Err("a vrf is Linux's".to_owned()), "it has no queues");
        assert_eq!(told("vrf", &[]), Is::default());
    }
}
