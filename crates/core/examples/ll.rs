use evenkeel_core::linklayer::world::*;
use evenkeel_core::linklayer::idle::Stairs;
use evenkeel_core::Direction;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap(); let noisy = a[2] == "1"; let from: u64 = a.get(3).map_or(0, |s| s.parse().unwrap());
    let verbose = a.len() > 4;
    let mut t = std::collections::BTreeMap::new();
    for seed in from..from+n {
        let s = draw(seed, noisy);
        let o = run(&s);
        for d in Direction::BOTH {
            let v = &o.survey.direction[d];
            let r = judge(&s, d, v);
            let e = t.entry((s.family, d == Direction::Up)).or_insert([0.0f64; 10]);
            e[0] += 1.0; e[1] += f64::from(r.found as u8); e[2] += f64::from((r.found && r.mode) as u8); e[3] += f64::from(r.exact as u8);
            e[4] = e[4].max(if r.found {r.off as f64} else {0.0}); if r.found { e[5] = e[5].max(r.capacity); e[9] += f64::from((r.capacity < 0.005) as u8) }
            e[6] = e[6].max(o.lasted); e[7] = e[7].max(o.used[d]);
            e[8] += match (s.family, o.stairs) { (Family::Atm, Stairs::Cells{overhead,..}) if overhead == s.framing.up.overhead => 1.0, (Family::Atm, _) => 0.0, (_, Stairs::Cells{..}) => -100.0, (_, Stairs::Straight{..}) => 1.0, _ => 0.0 };
            if verbose || (r.found && !r.exact) || !r.found {
                println!("{seed} {d} {} {} rtt {:?} mtu {} buf {:?} pace {:.0}: found {:?} best {:?} conf {:.4} mode {:.4} why {:?} rate {:?} cost {:?} used {:.2} lasted {:.1} depth {:?}", s.framing[d], s.rate[d], s.rtt, s.mtu, s.buffer[d], s.pace, v.framing.map(|f| f.to_string()), v.best.map(|f| f.to_string()), v.confidence, v.mode_confidence, v.why, v.rate, o.saturation[d].cost(), o.used[d], o.lasted, o.saturation[d].depth());
                if verbose { for sl in o.saturation[d].slopes() { println!("   {sl:?}"); } println!("   idle {:?} stairs {:?}", o.saturation[d].idle(), o.stairs); }
            }
        }
    }
    println!("family up | n found mode exact maxoff maxcap maxtime maxused A cap<.5%");
    for (k, e) in t { println!("{k:?} {:?}", e.map(|x| (x*10000.0).round()/10000.0)); }
}
