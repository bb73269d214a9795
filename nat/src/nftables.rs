pub(crate) fn can_express(_: &crate::rule::Rule) -> bool {
    true
}
