//! The base chains that transit passes, one behind the other, as chains of the filter's hooks.

use std::collections::HashSet;

use rules::{Family, Filter, Hook, Match, Place, Policy, Rule, Verdict};

use crate::ruleset::{Base, Chain, Ruleset};
use crate::translate::{Translator, families, name};
use crate::{Adopted, Problem, clamps, reverse, translation};

/// Adopts what can be adopted.
pub(crate) fn adopt(ruleset: &Ruleset, translates: bool) -> Adopted {
    let (mut bases, mut of_nat, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (chain, base) in ruleset.of_transit() {
        match why_not(ruleset, chain, base, translates) {
            Some(why) => problems.push(problem(chain, why)),
            None if base.kind == "nat" => of_nat.push((chain, base)),
            None => bases.push((chain, base)),
        }
    }
    let (mut taken, mut clamps, mut reverse) = (HashSet::new(), Vec::new(), [None; 2]);
    for (chain, base) in &bases {
        // Where the router translates by its own rules, these are in force alone.
        for (handle, clamp) in clamps::leading(chain, base).into_iter().filter(|_| !translates) {
            taken.insert((chain.key.clone(), handle));
            clamps.push(clamp);
        }
        for (handle, check) in reverse::checks(chain, base) {
            taken.insert((chain.key.clone(), handle));
            reverse = [0, 1].map(|n| reverse::stricter(reverse[n], check[n]));
        }
    }
    let mut both = Translator::new(ruleset, [true; 2], &taken);
    let numbers = both.chains(&bases);
    problems.append(&mut both.problems);
    problems.append(&mut in_no_order(&bases, &both.filter));
    let mut translation = translation::read(ruleset, &of_nat, [true; 2]);
    problems.append(&mut translation.problems);
    problems.append(&mut behind_translation(&bases, &of_nat, &both.filter, &numbers));
    let families = [0, 1].map(|n| !problems.iter().any(|problem| problem.families[n]));
    if families == [false; 2] {
        return Adopted { problems, ..Adopted::default() };
    }
    let mut translator = Translator::new(ruleset, families, &taken);
    let numbers = translator.chains(&bases);
    let mut filter = translator.filter;
    lay(&mut filter, &bases, &numbers, families);
    // What could not be written has been told.
    let rules = translation::read(ruleset, &of_nat, families).rules;
    let clamps = clamps::of_families(clamps, families);
    let any = !rules.is_empty() || !clamps.is_empty();
    let nat = any.then(|| nat::Rules { clamps, ..rules.into() });
    let reverse = [0, 1].map(|n| reverse[n].filter(|_| families[n]));
    Adopted { filter, families, nat, reverse, problems, tracks: ruleset.tracks() }
}

/// Why a base chain cannot be adopted, whatever stands in it.
fn why_not(ruleset: &Ruleset, chain: &Chain, base: &Base, translates: bool) -> Option<String> {
    match (base.kind.as_str(), base.hook.as_str()) {
        _ if ruleset.is_flagged(chain) => Some("its table has flags, of which nft does not tell".to_owned()),
        ("nat", _) if translates => Some("it translates addresses, as the router's own rules do".to_owned()),
        (_, hook @ ("ingress" | "egress")) => Some(format!("it stands at the {hook} of an interface")),
        _ => None,
    }
}

fn problem(chain: &Chain, why: String) -> Problem {
    Problem { families: families(&chain.key), chain: name(&chain.key), handle: None, why }
}

/// Chains that stand at one place, where what the first does may matter to the second: Linux does
/// not tell which is first.
fn in_no_order(bases: &[(&Chain, &Base)], filter: &Filter) -> Vec<Problem> {
    let changes = |rule: &Rule| rule.effects.mark.is_some() || rule.effects.dscp.is_some();
    if !filter.rules().any(|(_, rule)| changes(rule)) {
        return Vec::new();
    }
    let place = |base: &Base| (base.hook.clone(), base.priority);
    let meet = |one: &Chain, other: &Chain| (0..2).any(|n| families(&one.key)[n] && families(&other.key)[n]);
    let pairs =
        bases.iter().enumerate().flat_map(|(n, one)| bases[n + 1..].iter().map(move |other| (one, other)));
    let same = pairs.filter(|(one, other)| place(one.1) == place(other.1) && meet(one.0, other.0));
    same.map(|(one, other)| {
        let beside = name(&other.0.key);
        problem(
            one.0,
            format!("its order beside {beside} is not told, and one of them changes marks or code points"),
        )
    })
    .collect()
}

/// Chains that stand behind the translation of what they ask for, where Linux's rules see what the
/// plane's do not.
fn behind_translation(
    bases: &[(&Chain, &Base)],
    of_nat: &[(&Chain, &Base)],
    filter: &Filter,
    numbers: &[usize],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for ((chain, base), number) in bases.iter().zip(numbers) {
        let before = |nat: &&(&Chain, &Base)| nat.1.hook == base.hook && nat.1.priority <= base.priority;
        if !of_nat.iter().any(|nat| before(&nat)) {
            continue;
        }
        let asks = |rule: &Rule| match base.hook.as_str() {
            "prerouting" => rule.matches.destination.is_some() || rule.matches.destination_ports.is_some(),
            _ => rule.matches.source.is_some() || rule.matches.source_ports.is_some(),
        };
        let (mut known, mut due) = (vec![*number], vec![*number]);
        while let Some(number) = due.pop() {
            let rules = &filter.chains[number].rules;
            if rules.iter().any(asks) {
                let why = "it asks for addresses or ports behind their translation".to_owned();
                problems.push(problem(chain, why));
                break;
            }
            for rule in rules {
                if let Some(Verdict::Jump { number, .. }) = rule.verdict
                    && !known.contains(&number)
                {
                    known.push(number);
                    due.push(number);
                }
            }
        }
    }
    problems
}

/// Has the hooks lead to base chains, in their order.
fn lay(filter: &mut Filter, bases: &[(&Chain, &Base)], numbers: &[usize], adopted: [bool; 2]) {
    let hook_of = |base: &Base| match base.hook.as_str() {
        "prerouting" => Hook::Input,
        "forward" => Hook::Forward,
        _ => Hook::Output,
    };
    let sees = |n: usize| {
        let own = families(&bases[n].0.key);
        [own[0] && adopted[0], own[1] && adopted[1]]
    };
    for (n, (chain, base)) in bases.iter().enumerate() {
        let family = match sees(n) {
            [true, true] => None,
            [true, false] => Some(Family::Ipv4),
            [false, true] => Some(Family::Ipv6),
            [false, false] => continue,
        };
        let meets = |other: usize| (0..2).any(|family| sees(n)[family] && sees(other)[family]);
        let follows = |other: usize| hook_of(bases[other].1) == hook_of(base) && meets(other);
        let rule = |family, verdict| Rule {
            matches: Match { family, ..Match::default() },
            verdict: Some(verdict),
            place: Place { file: name(&chain.key).into(), line: 0 },
            ..Rule::default()
        };
        let layer = &mut filter.chains[numbers[n]];
        layer.base = (n + 1..bases.len()).any(follows);
        if base.drops {
            // Its policy: no rule jumps to a base chain, so what returns from it comes to that.
            let returns = layer.rules.iter_mut().filter(|rule| rule.verdict == Some(Verdict::Return));
            returns.for_each(|rule| rule.verdict = Some(Verdict::Drop));
            layer.rules.push(Rule { name: Some("policy".to_owned()), ..rule(None, Verdict::Drop) });
        }
        let jump = Verdict::Jump { chain: name(&chain.key), number: numbers[n] };
        filter.chains[hook_of(base) as usize].rules.push(rule(family, jump));
    }
}

/// What both let pass: the adopted chains first, then those of the plane's own, which keep their
/// names and numbers.
pub(crate) fn behind(own: &Filter, adopted: &Filter) -> Filter {
    let hooks = Hook::ALL.len();
    let (chains, sets) = (own.chains.len() - hooks, own.sets.len());
    let mut moved = adopted.clone();
    for rule in moved.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        if let Some(Verdict::Jump { number, .. }) = &mut rule.verdict {
            *number += chains;
        }
        let lists = [&mut rule.matches.source, &mut rule.matches.destination];
        for item in lists.into_iter().flatten().flat_map(|list| &mut list.items) {
            if let rules::Address::Set { number, .. } = item {
                *number += sets;
            }
        }
    }
    let mut filter = own.clone();
    for hook in Hook::ALL {
        let chain = &mut filter.chains[hook as usize];
        let judges = !chain.rules.is_empty() || chain.policy == Policy::Drop;
        let before = std::mem::take(&mut moved.chains[hook as usize].rules);
        if judges {
            for jump in &before {
                if let Some(Verdict::Jump { number, .. }) = jump.verdict {
                    moved.chains[number - chains].base = true;
                }
            }
        }
        chain.rules.splice(..0, before);
    }
    filter.chains.extend(moved.chains.into_iter().skip(hooks));
    filter.sets.extend(moved.sets);
    filter
}
