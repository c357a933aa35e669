// SPDX-License-Identifier: GPL-2.0

//! What a scenario found: tables, curves, lines of text.

use std::fmt::Write;

/// A table, for a CSV file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of the file, without suffix.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<&'static str>,
    /// Rows, as many cells as columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, columns: &[&'static str]) -> Self {
        Table {
            name: name.to_owned(),
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// The table as CSV (RFC 4180 but for the line ends); no cell has a comma.
    pub fn csv(&self) -> String {
        let mut s = self.columns.join(",");
        s.push('\n');
        for row in &self.rows {
            s.push_str(&row.join(","));
            s.push('\n');
        }
        s
    }

    /// The table as text with aligned columns.
    pub fn text(&self) -> String {
        let width = |k: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|r| r.get(k))
                .map(|c| c.chars().count());
            cells.chain([self.columns[k].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut s = String::new();
        let columns = self.columns.iter().map(|c| (*c).to_owned()).collect();
        for row in std::iter::once(&columns).chain(&self.rows) {
            for (cell, w) in row.iter().zip(&widths) {
                // Writing to a string does not fail.
                let _ = write!(s, "  {cell:>w$}");
            }
            s.push('\n');
        }
        s
    }
}

/// A curve of a plot.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// A plot, for an SVG file.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Name of the file, without suffix.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Below the x axis.
    pub x: String,
    /// Beside the y axis.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// All that a scenario found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Lines for the reader.
    pub lines: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Plots.
    pub plots: Vec<Plot>,
}

impl Report {
    /// Adds what another one has.
    pub fn append(&mut self, other: Report) {
        self.lines.extend(other.lines);
        self.tables.extend(other.tables);
        self.plots.extend(other.plots);
    }
}
