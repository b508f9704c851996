use coppice_scenarios::sim;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let t = std::time::SystemTime::now();
    let r = sim::run(a[0]..=a[1], &sim::Options { directory: Some("/tmp/simfail".into()), failures_max: a.get(2).map_or(10, |v| *v as usize) }, &mut |_| {});
    println!("{r}");
    println!("{:?}", t.elapsed());
}
