//! Queries 12 to 22.

use differential_dataflow::operators::{CountTotal, ThresholdTotal};

use crate::feed::Context;
use crate::rows::{
    Customer, LineItem, Nation, Order, Part, PartSupp, Supplier, date_text, days, decimal, is, text,
};

pub fn q12(context: &mut Context) {
    const FIRST: i32 = days(1994, 1, 1);
    const END: i32 = days(1995, 1, 1);
    let orders = context.table::<Order>().map(|o| {
        (
            o.order,
            is(&o.priority, "1-URGENT") || is(&o.priority, "2-HIGH"),
        )
    });
    let result = context
        .table::<LineItem>()
        .flat_map(|l| {
            let is_wanted = (is(&l.mode, "MAIL") || is(&l.mode, "SHIP"))
                && l.committed < l.received
                && l.shipped < l.committed
                && (FIRST..END).contains(&l.received);
            is_wanted.then_some((l.order, l.mode))
        })
        .join_map(orders, |_, &mode, &is_high| (mode, is_high))
        .explode(|(mode, is_high)| Some((mode, (is_high as isize, !is_high as isize))))
        .count_total();
    context.output(result, |(mode, (high, low))| {
        vec![text(mode), high.to_string(), low.to_string()]
    });
}

pub fn q13(context: &mut Context) {
    let orders = context.table::<Order>().explode(|o| {
        let special = o
            .comment
            .find("special")
            .map(|at| &o.comment[at + "special".len()..]);
        let is_wanted = special.is_none_or(|rest| !rest.contains("requests"));
        is_wanted.then_some((o.customer, (0, 1)))
    });
    let result = context
        .table::<Customer>()
        .explode(|c| Some((c.customer, (1, 0))))
        .concat(orders)
        .count_total()
        .flat_map(|(_, (customers, orders)): (i64, (isize, isize))| {
            (customers > 0).then_some(orders)
        })
        .count_total();
    context.output(result, |(orders, customers)| {
        vec![orders.to_string(), customers.to_string()]
    });
}

pub fn q14(context: &mut Context) {
    const FIRST: i32 = days(1995, 9, 1);
    const END: i32 = days(1995, 10, 1);
    let parts = context
        .table::<Part>()
        .map(|p| (p.part, p.kind.starts_with(b"PROMO")));
    let result = context
        .table::<LineItem>()
        .explode(|l| {
            (FIRST..END)
                .contains(&l.shipped)
                .then(|| ((l.part, ()), l.revenue()))
        })
        .join_map(parts, |_, (), &is_promotion| is_promotion)
        .explode(|is_promotion| Some(((), (is_promotion as isize, 1))))
        .count_total();
    context.output(result, |(_, (part, whole))| {
        vec![(100.0 * *part as f64 / *whole as f64).to_string()]
    });
}

pub fn q15(context: &mut Context) {
    const FIRST: i32 = days(1996, 1, 1);
    const END: i32 = days(1996, 4, 1);
    let mut best = context
        .table::<LineItem>()
        .explode(|l| {
            (FIRST..END)
                .contains(&l.shipped)
                .then(|| (l.supplier, l.revenue()))
        })
        .count_total();
    // The greatest by steps, so that a change looks at few suppliers.
    for groups in [1000, 100, 10, 1] {
        best = best
            .map(move |(supplier, revenue)| (supplier % groups, (revenue, supplier)))
            .reduce(|_, revenues, best| {
                let greatest = revenues[revenues.len() - 1].0.0;
                let equal = revenues
                    .iter()
                    .rev()
                    .take_while(|((each, _), _)| *each == greatest);
                best.extend(equal.map(|((each, supplier), count)| ((*supplier, *each), *count)));
            })
            .map(|(_, each)| each);
    }
    let suppliers = context
        .table::<Supplier>()
        .map(|s| (s.supplier, (s.name, s.address, s.phone)));
    let result = best.join(suppliers);
    context.output(result, |(supplier, (revenue, (name, address, phone)))| {
        vec![
            supplier.to_string(),
            text(name),
            address.clone(),
            text(phone),
            decimal(*revenue, 4),
        ]
    });
}

pub fn q16(context: &mut Context) {
    const SIZES: [i32; 8] = [49, 14, 23, 45, 19, 3, 36, 9];
    let blamed = context.table::<Supplier>().flat_map(|s| {
        let customer = s
            .comment
            .find("Customer")
            .map(|at| &s.comment[at + "Customer".len()..]);
        customer
            .is_some_and(|rest| rest.contains("Complaints"))
            .then_some(s.supplier)
    });
    let parts = context.table::<Part>().flat_map(|p| {
        let is_wanted = !is(&p.brand, "Brand#45")
            && !p.kind.starts_with(b"MEDIUM POLISHED")
            && SIZES.contains(&p.size);
        is_wanted.then_some((p.part, (p.brand, p.kind, p.size)))
    });
    let result = context
        .table::<PartSupp>()
        .map(|ps| (ps.part, ps.supplier))
        .join_map(parts, |_, &supplier, &group| (supplier, group))
        .antijoin(blamed)
        .distinct_total()
        .map(|(_, group)| group)
        .count_total();
    context.output(result, |((brand, kind, size), count)| {
        vec![text(brand), text(kind), size.to_string(), count.to_string()]
    });
}

pub fn q17(context: &mut Context) {
    let parts = context
        .table::<Part>()
        .flat_map(|p| (is(&p.brand, "Brand#23") && is(&p.container, "MED BOX")).then_some(p.part));
    let result = context
        .table::<LineItem>()
        .map(|l| (l.part, (l.quantity, l.price)))
        .semijoin(parts)
        .reduce(|_, lines, small| {
            let total: isize = lines.iter().map(|((each, _), n)| *each as isize * n).sum();
            let count: isize = lines.iter().map(|(_, n)| n).sum();
            let below = lines
                .iter()
                .filter(|((each, _), _)| *each as isize * count * 5 < total);
            small.extend(below.map(|((_, price), n)| (*price, *n)));
        })
        .explode(|(_, price)| Some(((), price as isize)))
        .count_total();
    context.output(result, |(_, price)| {
        vec![(*price as f64 / 700.0).to_string()]
    });
}

pub fn q18(context: &mut Context) {
    let orders = context
        .table::<Order>()
        .map(|o| (o.order, (o.customer, o.date, o.price)));
    let customers = context.table::<Customer>().map(|c| (c.customer, c.name));
    let result = context
        .table::<LineItem>()
        .explode(|l| Some((l.order, l.quantity as isize)))
        .count_total()
        .filter(|(_, quantity)| *quantity > 30_000)
        .join_map(orders, |&order, &quantity, &(customer, date, price)| {
            (customer, (order, date, price, quantity))
        })
        .join(customers);
    context.output(
        result,
        |(customer, ((order, date, price, quantity), name))| {
            vec![
                text(name),
                customer.to_string(),
                order.to_string(),
                date_text(*date),
                decimal(*price as isize, 2),
                decimal(*quantity, 2),
            ]
        },
    );
}

/// Of one of the three kinds of parts of query 19: its least quantity.
fn least_quantity(part: &Part) -> Option<i64> {
    const KINDS: [(&str, [&str; 4], i32, i64); 3] = [
        (
            "Brand#12",
            ["SM CASE", "SM BOX", "SM PACK", "SM PKG"],
            5,
            100,
        ),
        (
            "Brand#23",
            ["MED BAG", "MED BOX", "MED PKG", "MED PACK"],
            10,
            1000,
        ),
        (
            "Brand#34",
            ["LG CASE", "LG BOX", "LG PACK", "LG PKG"],
            15,
            2000,
        ),
    ];
    let found = KINDS.iter().find(|(brand, containers, size, _)| {
        is(&part.brand, brand)
            && containers
                .iter()
                .any(|container| is(&part.container, container))
            && (1..=*size).contains(&part.size)
    });
    found.map(|(_, _, _, least)| *least)
}

pub fn q19(context: &mut Context) {
    let parts = context
        .table::<Part>()
        .flat_map(|p| least_quantity(&p).map(|least| (p.part, least)));
    let result = context
        .table::<LineItem>()
        .explode(|l| {
            let is_wanted = (is(&l.mode, "AIR") || is(&l.mode, "AIR REG"))
                && is(&l.instruction, "DELIVER IN PERSON");
            is_wanted.then(|| ((l.part, l.quantity), l.revenue()))
        })
        .join_map(parts, |_, &quantity, &least| (quantity, least))
        .filter(|(quantity, least)| (*least..=*least + 1000).contains(quantity))
        .map(|_| ())
        .count_total();
    context.output(result, |(_, revenue)| vec![decimal(*revenue, 4)]);
}

pub fn q20(context: &mut Context) {
    const FIRST: i32 = days(1994, 1, 1);
    const END: i32 = days(1995, 1, 1);
    let parts = context
        .table::<Part>()
        .flat_map(|p| p.name.starts_with("forest").then_some(p.part))
        .arrange_by_self();
    let shipped = context
        .table::<LineItem>()
        .explode(|l| {
            let is_wanted = (FIRST..END).contains(&l.shipped);
            is_wanted.then(|| ((l.part, l.supplier), l.quantity as isize))
        })
        .arrange_by_key()
        .join_core(parts.clone(), |&part, &supplier, ()| Some((part, supplier)))
        .count_total();
    let suppliers = context
        .table::<PartSupp>()
        .map(|ps| (ps.part, (ps.supplier, ps.available)))
        .arrange_by_key()
        .join_core(parts, |&part, &(supplier, available), ()| {
            Some(((part, supplier), available))
        })
        .arrange_by_key()
        .join_core(
            shipped.arrange_by_key(),
            |&(_, supplier), &available, &quantity| {
                (available as isize * 200 > quantity).then_some(supplier)
            },
        )
        .distinct_total();
    let nations = context
        .table::<Nation>()
        .flat_map(|n| is(&n.name, "CANADA").then_some(n.nation));
    let result = context
        .table::<Supplier>()
        .map(|s| (s.supplier, (s.nation, s.name, s.address)))
        .semijoin(suppliers)
        .map(|(_, (nation, name, address))| (nation, (name, address)))
        .semijoin(nations)
        .map(|(_, supplier)| supplier);
    context.output(result, |(name, address)| vec![text(name), address.clone()]);
}

pub fn q21(context: &mut Context) {
    let orders = context
        .table::<Order>()
        .flat_map(|o| is(&o.status, "F").then_some(o.order));
    // The supplier that alone is late, of orders that others delivered in time.
    let waited = context
        .table::<LineItem>()
        .map(|l| (l.order, (l.supplier, l.received > l.committed)))
        .semijoin(orders)
        .reduce(|_, lines, waited| {
            let mut late = lines.iter().filter(|((_, is_late), _)| *is_late);
            if let (Some(((supplier, _), count)), None) = (late.next(), late.next()) {
                if lines.iter().any(|((other, _), _)| other != supplier) {
                    waited.push((*supplier, *count));
                }
            }
        })
        .map(|(_, supplier)| supplier);
    let nations = context
        .table::<Nation>()
        .flat_map(|n| is(&n.name, "SAUDI ARABIA").then_some(n.nation));
    let result = context
        .table::<Supplier>()
        .map(|s| (s.nation, (s.supplier, s.name)))
        .semijoin(nations)
        .map(|(_, supplier)| supplier)
        .semijoin(waited)
        .map(|(_, name)| name)
        .count_total();
    context.output(result, |(name, count)| vec![text(name), count.to_string()]);
}

pub fn q22(context: &mut Context) {
    const CODES: [&[u8; 2]; 7] = [b"13", b"31", b"23", b"29", b"30", b"18", b"17"];
    // Nobody whose balance is not positive has one above the average of the positive ones.
    let customers = context.table::<Customer>().flat_map(|c| {
        let code = [c.phone[0], c.phone[1]];
        (CODES.contains(&&code) && c.balance > 0).then_some((c.customer, (code, c.balance)))
    });
    let average = customers
        .clone()
        .explode(|(_, (_, balance))| Some(((), (balance as isize, 1))))
        .count_total();
    let orders = context
        .table::<Order>()
        .map(|o| o.customer)
        .distinct_total();
    let result = customers
        .antijoin(orders)
        .map(|(_, customer)| ((), customer))
        .arrange_by_key()
        .join_core(
            average.arrange_by_key(),
            |_, &(code, balance), &(sum, count): &(isize, isize)| {
                (balance as isize * count > sum).then_some((code, balance))
            },
        )
        .explode(|(code, balance)| Some((code, (1, balance as isize))))
        .count_total();
    context.output(
        result,
        |(code, (count, balance)): &([u8; 2], (isize, isize))| {
            vec![text(code), count.to_string(), decimal(*balance, 2)]
        },
    );
}
