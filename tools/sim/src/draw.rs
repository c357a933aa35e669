// SPDX-License-Identifier: GPL-2.0

//! Plots as SVG.

use metaroce_sim::report::Plot;
use plotters::prelude::*;

/// Curves, in the order of their use; distinguishable for the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 86, 86),
];

/// Draws a plot.
pub fn svg(plot: &Plot) -> Result<String, Box<dyn std::error::Error>> {
    let points = || plot.curves.iter().flat_map(|c| &c.points);
    let bounds = |v: &dyn Fn(&(f64, f64)) -> f64| {
        let (low, high) = points()
            .map(v)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| {
                (l.min(x), h.max(x))
            });
        if low < high {
            (low, high)
        } else {
            (0.0, 1.0)
        }
    };
    let (x0, x1) = bounds(&|p| p.0);
    let (_, y1) = bounds(&|p| p.1);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (640, 400)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&plot.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(x0..x1, 0.0..y1 * 1.05)?;
        chart
            .configure_mesh()
            .x_desc(&plot.x)
            .y_desc(&plot.y)
            .light_line_style(WHITE)
            .draw()?;
        for (curve, colour) in plot.curves.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .border_style(BLACK)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        root.present()?;
    }
    Ok(text)
}
