//! Printing a plan as a tree, with equal leaves in one line.

use std::fmt;

use crate::{Class, Handle, Object, Plan, Program, Qdisc, QdiscKind, Shape, Step};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.qdiscs().find(|q| q.parent == Handle::ROOT);
        root.map_or(Ok(()), |root| self.below(f, root, 0))
    }
}

impl Plan {
    fn qdiscs(&self) -> impl Iterator<Item = &Qdisc> {
        self.objects.iter().filter_map(|o| match o {
            Object::Qdisc(q) => Some(q),
            _ => None,
        })
    }

    fn classes(&self, qdisc: Handle) -> impl Iterator<Item = &Class> {
        self.objects.iter().filter_map(move |o| match o {
            Object::Class(c) if c.id.qdisc() == qdisc => Some(c),
            _ => None,
        })
    }

    fn below(&self, f: &mut fmt::Formatter<'_>, qdisc: &Qdisc, depth: usize) -> fmt::Result {
        let indent = 2 * depth;
        let name = qdisc.handle.map(|h| format!("{h} ")).unwrap_or_default();
        writeln!(f, "{:indent$}qdisc {name}{}", "", qdisc.kind)?;
        let Some(handle) = qdisc.handle else { return Ok(()) };
        let indent = indent + 2;
        for object in &self.objects {
            if let Object::Filter(filter) = object
                && filter.parent == handle
            {
                writeln!(f, "{:indent$}filter {}", "", filter.program)?;
            }
        }
        let classes: Vec<&Class> = self.classes(handle).collect();
        let is_weighted = |class: &Class| class.parent.is_lender();
        let alike = |a: &&Class, b: &&Class| {
            a.shape == Shape::Unlimited && a.urgency == b.urgency && !is_weighted(b)
        };
        for alike in classes.chunk_by(alike) {
            let (Some(first), Some(last)) = (alike.first(), alike.last()) else { continue };
            let many = if alike.len() > 1 {
                format!("es {} to {} ({})", first.id, last.id, alike.len())
            } else {
                format!(" {}", first.id)
            };
            let of = first.id.bundle().and_then(|i| self.bundles.get(&i));
            let of = of.map(|name| format!(": bundle {name}")).unwrap_or_default();
            let of = if first.id == Handle::UPLINK { ": all bundles" } else { &of };
            let assured = first.assured.map(|rate| format!(", {rate} assured"));
            let assured = assured.unwrap_or_default();
            let of = if first.id.is_lender() { ": all classes" } else { of };
            let urgency = match first.shape {
                _ if is_weighted(first) => format!(", {} in its turn", first.quantum),
                Shape::Unlimited => format!(", urgency {}", first.urgency),
                Shape::Bundle | Shape::Limit(_) => String::new(),
            };
            writeln!(f, "{:indent$}class{many}{of}, {}{urgency}{assured}", "", first.shape)?;
            if let Some(queue) = self.qdiscs().find(|q| q.parent == first.id) {
                self.below(f, queue, depth + 2)?;
            }
        }
        if handle == Handle::TREE {
            writeln!(f, "{:indent$}direct: everything else, unshaped", "")?;
        }
        Ok(())
    }
}

impl fmt::Display for QdiscKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Htb => f.write_str("htb"),
            Self::Queue(discipline) => discipline.fmt(f),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundle => f.write_str("at the rate of its control loop"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Limit(rate) => write!(f, "at most {rate}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundles => f.write_str("bpf: by the longest prefix of the destination"),
            Self::Leaves { classes: 1, .. } => f.write_str("bpf: for each flow its own"),
            Self::Leaves { masks: 0, .. } => f.write_str("bpf: by the packet's class"),
            Self::Leaves { .. } => f.write_str("bpf: by the packet's class, for each flow its own"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qdisc(Qdisc { handle: Some(handle), parent, kind }) => {
                write!(f, "qdisc {handle} below {parent}, {kind}")
            }
            Self::Qdisc(Qdisc { parent, kind, .. }) => write!(f, "qdisc below {parent}, {kind}"),
            Self::Class(class) => write!(f, "class {}", class.id),
            Self::Filter(filter) => write!(f, "filter of {}, {}", filter.parent, filter.program),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(object) => write!(f, "make {object}"),
            Self::Change(object) => write!(f, "change {object}"),
            Self::DeleteQdisc { handle, parent } => {
                write!(f, "delete qdisc {handle} below {parent}")
            }
            Self::DeleteClass(id) => write!(f, "delete class {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{BundleQueues, Discipline, Features, FifoLimit, Plan};

    #[test]
    fn a_plan_is_a_tree() {
        let fifo = Discipline::Fifo { limit: FifoLimit::Packets(100) };
        let sfq = Discipline::Sfq { limit: 600, perturb: None };
        let bundle = |number, name: &str, classes| BundleQueues {
            number,
            name: name.to_owned(),
            classes,
            shares: Vec::new(),
            share: crate::Share::default(),
        };
        let bundles = [bundle(0, "oslo", vec![fifo]), bundle(1, "rome", vec![fifo, sfq])];
        let plan = Plan::new(&bundles, &Features::of(&["htb", "pfifo"])).unwrap();
        let expected = "\
qdisc fb0: htb
  filter bpf: by the longest prefix of the destination
  class fb0:1: bundle oslo, at the rate of its control loop
    qdisc 1000: pfifo limit 100 packets
  class fb0:2: bundle rome, at the rate of its control loop
    qdisc 1001: htb
      filter bpf: by the packet's class, for each flow its own
      class 1001:1, unlimited, urgency 0
        qdisc pfifo limit 100 packets
      classes 1001:101 to 1001:200 (256), unlimited, urgency 1
        qdisc pfifo limit 100 packets
  direct: everything else, unshaped
";
        assert_eq!(plan.to_string(), expected);
    }
}
