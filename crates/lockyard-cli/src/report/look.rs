//! How tables look.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

/// A rule under the header, no other line.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// How tables look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Whether bold and dim text is possible.
    pub(crate) styled: bool,
    /// Whether cells name their section and think time.
    pub(crate) full_titles: bool,
    /// Whether lock events follow.
    pub(crate) events: bool,
}

impl Look {
    pub(crate) fn bold(self, text: &str) -> String {
        if self.styled { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn dim(self, text: &str) -> String {
        if self.styled { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A table with these heads, in our style.
pub(crate) fn new_table<T: AsRef<str>>(look: Look, head: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head.into_iter().map(|name| Cell::new(name.as_ref())).collect::<Vec<_>>());
    if look.styled {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Aligns columns to the right.
pub(crate) fn align_right(table: &mut Table, columns: &[usize]) {
    for index in columns {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The table as text, without blanks at the ends of lines.
pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
