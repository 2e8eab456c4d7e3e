//! Tables without borders, one line for each row. Only columns of free text
//! are ever cut: a name that is cut cannot be copied.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::printer::Style;

const COLUMN_GAP: usize = 2;
/// The least that is left of a column of free text.
const MIN_COLUMN_WIDTH: usize = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    /// Free text, cut where the line would get too long.
    text: bool,
    /// Figures, aligned at their last digit.
    right: bool,
}

impl Column {
    /// A column that is never cut.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            text: false,
            right: false,
        }
    }

    /// A column of free text.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self {
            text: true,
            ..Self::new(name)
        }
    }

    /// A column of figures.
    pub(crate) const fn figures(name: &'static str) -> Self {
        Self {
            right: true,
            ..Self::new(name)
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    /// A text with a style. Control characters would wreck the table, or the
    /// terminal.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Self {
            text: text.as_ref().chars().map(plain).collect(),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::Plain)
    }
}

/// A table under construction.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<TableCell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row; one cell for each column.
    pub(crate) fn push(&mut self, row: Vec<TableCell>) {
        self.rows.push(row);
    }

    /// The lines of the table, with the header by default. `width`
    /// is that of the terminal; without one, nothing is cut.
    pub(crate) fn render(&self, width: Option<usize>, color: bool, header: bool) -> String {
        let widths = self.fit(width.unwrap_or(usize::MAX));
        let mut out = String::new();
        if header {
            let names = self
                .columns
                .iter()
                .map(|column| TableCell::styled(column.name, Style::Bold));
            self.line(&mut out, &names.collect::<Vec<_>>(), &widths, color);
        }
        for row in &self.rows {
            self.line(&mut out, row, &widths, color);
        }
        out
    }

    /// The natural widths, with the columns of free text cut to fit.
    fn fit(&self, limit: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| c.name.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let mut excess = (widths.iter().sum::<usize>()
            + COLUMN_GAP * widths.len().saturating_sub(1))
        .saturating_sub(limit);
        for (width, column) in widths.iter_mut().zip(&self.columns) {
            if column.text && excess > 0 {
                let cut =
                    excess.min(width.saturating_sub(MIN_COLUMN_WIDTH.max(column.name.width())));
                *width -= cut;
                excess -= cut;
            }
        }
        widths
    }

    fn line(&self, out: &mut String, cells: &[TableCell], widths: &[usize], color: bool) {
        let mut line = String::new();
        for ((cell, column), &width) in cells.iter().zip(&self.columns).zip(widths) {
            let text = cut(&cell.text, width);
            let padding = " ".repeat(width.saturating_sub(text.width()));
            let painted = cell.style.paint(&text, color);
            let (before, after) = if column.right {
                (padding, String::new())
            } else {
                (String::new(), padding)
            };
            line.push_str(&format!(
                "{before}{painted}{after}{}",
                " ".repeat(COLUMN_GAP)
            ));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// At most `width` columns of `text`, with a mark where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::new("NAME"),
            Column::figures("PIDS"),
            Column::text("COMMAND"),
            Column::new("AGE"),
        ]);
        table.push(vec![
            "web".into(),
            "3".into(),
            "nginx -g daemon off".into(),
            "5s".into(),
        ]);
        let long = "sh -c ".to_owned() + &"x".repeat(80);
        table.push(vec![
            TableCell::styled("batch/nightly", Style::Bad),
            "12".into(),
            long.into(),
            "2d".into(),
        ]);
        table
    }

    #[test]
    fn free_text_is_cut_to_fit() {
        insta::assert_snapshot!(table().render(Some(50), false, true), @r"
        NAME           PIDS  COMMAND                   AGE
        web               3  nginx -g daemon off       5s
        batch/nightly    12  sh -c xxxxxxxxxxxxxxxxx…  2d
        ");
    }

    #[test]
    fn colour_does_not_move_anything() {
        let colored = table().render(Some(50), true, true);
        assert!(colored.contains("\x1b[31mbatch/nightly\x1b[0m"));
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some(start) = rest.find('\x1b') {
            plain.push_str(&rest[..start]);
            let end = rest[start..].find('m').unwrap();
            rest = &rest[start + end + 1..];
        }
        plain.push_str(rest);
        assert_eq!(plain, table().render(Some(50), false, true));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(vec![Column::new("NAME")]);
        table.push(vec!["a\x1b[2Jb\nc".into()]);
        assert_eq!(table.render(None, false, false), "a [2Jb c\n");
    }

    proptest! {
        #[test]
        fn a_table_of_free_text_fits(text in "\\PC{0,200}", width in 40usize..200) {
            let mut table = Table::new(vec![Column::new("NAME"), Column::text("COMMAND"), Column::new("AGE")]);
            table.push(vec!["name".into(), text.into(), "1d".into()]);
            for line in table.render(Some(width), false, true).lines() {
                prop_assert!(line.width() <= width, "{line}");
            }
        }
    }
}
