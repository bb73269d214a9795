//! Two conditions of a rule for one thing, as one condition.

use ipnet::IpNet;
use rules::{Address, Interface, List};

use crate::Why;
use crate::prefixes;

/// Asks for addresses beside those that are asked for; whether there are such.
pub(crate) fn addresses(field: &mut Option<List<Address>>, wanted: List<Address>) -> Result<bool, Why> {
    let Some(had) = field.as_mut().filter(|had| **had != wanted) else {
        *field = Some(wanted);
        return Ok(true);
    };
    let nets = |list: &List<Address>| {
        let net = |item: &Address| match item {
            Address::Net(net) => Some(*net),
            Address::Set { .. } => None,
        };
        list.items.iter().map(net).collect::<Option<Vec<IpNet>>>()
    };
    let (Some(one), Some(other)) = (nets(had), nets(&wanted)) else {
        return Err("two conditions for its addresses".to_owned());
    };
    let items = match (had.not, wanted.not) {
        (true, true) => [one, other].concat(),
        (false, false) => prefixes::both(&one, &other),
        (false, true) => prefixes::without(&one, &other),
        (true, false) => prefixes::without(&other, &one),
    };
    had.not &= wanted.not;
    had.items = items.into_iter().map(Address::Net).collect();
    Ok(!had.items.is_empty())
}

/// Asks for interfaces beside those that are asked for; whether there are such.
pub(crate) fn interfaces(field: &mut Option<List<Interface>>, wanted: List<Interface>) -> Result<bool, Why> {
    let Some(had) = field.as_mut().filter(|had| **had != wanted) else {
        *field = Some(wanted);
        return Ok(true);
    };
    if had.items.iter().chain(&wanted.items).any(|one| one.name.contains('*')) {
        return Err("two conditions for its interfaces".to_owned());
    }
    let is = |list: &List<Interface>, one: &Interface| list.items.contains(one);
    match (had.not, wanted.not) {
        (true, true) => had.items.extend(wanted.items),
        (false, not) => had.items.retain(|one| is(&wanted, one) != not),
        (true, false) => {
            let items = wanted.items.into_iter().filter(|one| !is(had, one)).collect();
            *had = List { not: false, items };
        }
    }
    Ok(!had.items.is_empty())
}
