//! In which of two formats a scraper wants the figures.

/// A format of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own text format, which everything reads.
    Plain,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Of the text, for the head of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What the header `Accept` asks for: OpenMetrics where it is named, and wanted no less than
    /// plain text.
    pub fn accepted(header: &str) -> Format {
        let wanted = |kind: &str| {
            let ranges = header.split(',').filter(|range| {
                range.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind))
            });
            ranges.map(quality).fold(0.0, f32::max)
        };
        let open = wanted("application/openmetrics-text");
        match open > 0.0 && open >= wanted("text/plain") {
            true => Format::OpenMetrics,
            false => Format::Plain,
        }
    }
}

/// How much a media range is wanted: its `q`, without which it is wanted wholly.
fn quality(range: &str) -> f32 {
    let parameter = range.split(';').skip(1).find_map(|one| one.trim().strip_prefix("q="));
    parameter.map_or(1.0, |quality| quality.parse().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("Application/OpenMetrics-Text"), Format::OpenMetrics);
        for plain in [
            "",
            "*/*",
            "text/html, */*;q=0.8",
            "text/plain, application/openmetrics-text; q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
        ] {
            assert_eq!(Format::accepted(plain), Format::Plain, "{plain}");
        }
    }
}
