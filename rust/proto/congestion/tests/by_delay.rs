// SPDX-License-Identifier: GPL-2.0

//! The law of delay.

use super::*;

#[test]
fn the_delay_law_keeps_its_target() {
    let mut link = Link::new(100);
    let (o, p) = run(&mut link, Controller::by_name("delay").unwrap(), 8);
    assert!(o.goodput >= 950, "{}", o.goodput);
    let Controller::Delay(law) = &p[0] else {
        unreachable!()
    };
    let above = law.target().0 - link.base.0;
    let most = u64::from(link.pipe) * above / link.base.0;
    assert!(o.queue <= most * 3 / 2, "{} of {most}", o.queue);
    assert!(o.queue >= most / 4, "{} of {most}", o.queue);
}

#[test]
fn the_delay_law_does_not_mind_random_loss() {
    let mut link = Link {
        loss: 500,
        ..Link::new(100_000)
    };
    let (_, p) = run(&mut link, Controller::by_name("delay").unwrap(), 4);
    assert!(p.iter().all(|p| p.window() == 240), "{p:?}");
}
