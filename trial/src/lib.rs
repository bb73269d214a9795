//! Trials: RFC 2544 and MLRsearch, their results, and the page that shows them.
