//! Queries 1 to 11.

use differential_dataflow::operators::{CountTotal, ThresholdTotal};

use crate::feed::Context;
use crate::rows::{
    Customer, LineItem, Nation, Order, Part, PartSupp, Region, Supplier, date_text, days, decimal,
    is, text, year,
};

pub fn q01(context: &mut Context) {
    const LAST: i32 = days(1998, 9, 2);
    let sums = context
        .table::<LineItem>()
        .explode(|l| {
            (l.shipped <= LAST).then(|| {
                let charge = l.revenue() * (100 + l.tax) as isize;
                let sums = (
                    (l.quantity as isize, l.price as isize),
                    (l.revenue(), charge),
                    (l.discount as isize, 1),
                );
                ((l.flag, l.status), sums)
            })
        })
        .count_total();
    context.output(
        sums,
        |((flag, status), ((quantity, price), (revenue, charge), (discount, count)))| {
            let average = |sum: isize| (sum as f64 / 100.0 / *count as f64).to_string();
            vec![
                text(flag),
                text(status),
                decimal(*quantity, 2),
                decimal(*price, 2),
                decimal(*revenue, 4),
                decimal(*charge, 6),
                average(*quantity),
                average(*price),
                average(*discount),
                count.to_string(),
            ]
        },
    );
}

pub fn q02(context: &mut Context) {
    let regions = context
        .table::<Region>()
        .flat_map(|r| is(&r.name, "EUROPE").then_some(r.region));
    let nations = context
        .table::<Nation>()
        .map(|n| (n.region, (n.nation, n.name)))
        .semijoin(regions)
        .map(|(_, nation)| nation);
    let suppliers = context
        .table::<Supplier>()
        .map(|s| {
            (
                s.nation,
                (s.supplier, s.balance, s.name, s.address, s.phone, s.comment),
            )
        })
        .join(nations)
        .map(
            |(_, ((supplier, balance, name, address, phone, comment), nation))| {
                (supplier, (balance, name, nation, address, phone, comment))
            },
        )
        .arrange_by_key();
    let parts = context
        .table::<Part>()
        .flat_map(|p| {
            let is_wanted = p.size == 15 && text(&p.kind).ends_with("BRASS");
            is_wanted.then_some((p.part, p.manufacturer))
        })
        .arrange_by_key();
    let cheapest = context
        .table::<PartSupp>()
        .map(|ps| (ps.part, (ps.supplier, ps.cost)))
        .arrange_by_key()
        .join_core(parts.clone(), |&part, &(supplier, cost), _| {
            Some((supplier, (part, cost)))
        })
        .arrange_by_key()
        .join_core(suppliers.clone(), |&supplier, &(part, cost), _| {
            Some((part, (cost, supplier)))
        })
        .reduce(|_, offers, cheapest| {
            let least = offers[0].0.0;
            let equal = offers.iter().take_while(|((cost, _), _)| *cost == least);
            cheapest.extend(equal.map(|((_, supplier), count)| (*supplier, *count)));
        });
    let result = cheapest
        .arrange_by_key()
        .join_core(parts, |&part, &supplier, &maker| {
            Some((supplier, (part, maker)))
        })
        .arrange_by_key()
        .join_core(suppliers, |_, offer, supplier| {
            Some((*offer, supplier.clone()))
        });
    context.output(
        result,
        |((part, maker), (balance, name, nation, address, phone, comment))| {
            vec![
                decimal(*balance as isize, 2),
                text(name),
                text(nation),
                part.to_string(),
                text(maker),
                address.clone(),
                text(phone),
                comment.clone(),
            ]
        },
    );
}

pub fn q03(context: &mut Context) {
    const DAY: i32 = days(1995, 3, 15);
    let customers = context
        .table::<Customer>()
        .flat_map(|c| is(&c.segment, "BUILDING").then_some(c.customer));
    let revenues = context
        .table::<LineItem>()
        .explode(|l| (l.shipped > DAY).then(|| (l.order, l.revenue())));
    let result = context
        .table::<Order>()
        .flat_map(|o| (o.date < DAY).then_some((o.customer, (o.order, o.date, o.ship_priority))))
        .semijoin(customers)
        .map(|(_, (order, date, priority))| (order, (date, priority)))
        .semijoin(revenues)
        .count_total();
    context.output(result, |((order, (date, priority)), revenue)| {
        vec![
            order.to_string(),
            decimal(*revenue, 4),
            date_text(*date),
            priority.to_string(),
        ]
    });
}

pub fn q04(context: &mut Context) {
    const FIRST: i32 = days(1993, 7, 1);
    const END: i32 = days(1993, 10, 1);
    let late = context
        .table::<LineItem>()
        .flat_map(|l| (l.committed < l.received).then_some(l.order))
        .distinct_total();
    let result = context
        .table::<Order>()
        .flat_map(|o| {
            (FIRST..END)
                .contains(&o.date)
                .then_some((o.order, o.priority))
        })
        .semijoin(late)
        .map(|(_, priority)| priority)
        .count_total();
    context.output(result, |(priority, count)| {
        vec![text(priority), count.to_string()]
    });
}

pub fn q05(context: &mut Context) {
    const FIRST: i32 = days(1994, 1, 1);
    const END: i32 = days(1995, 1, 1);
    let regions = context
        .table::<Region>()
        .flat_map(|r| is(&r.name, "ASIA").then_some(r.region));
    let nations = context
        .table::<Nation>()
        .map(|n| (n.region, (n.nation, n.name)))
        .semijoin(regions)
        .map(|(_, nation)| nation)
        .arrange_by_key();
    let suppliers = context
        .table::<Supplier>()
        .map(|s| (s.nation, s.supplier))
        .arrange_by_key()
        .join_core(nations.clone(), |&nation, &supplier, _| {
            Some((supplier, nation))
        });
    let customers = context
        .table::<Customer>()
        .map(|c| (c.nation, c.customer))
        .arrange_by_key()
        .join_core(nations.clone(), |&nation, &customer, _| {
            Some((customer, nation))
        });
    let orders = context
        .table::<Order>()
        .flat_map(|o| {
            (FIRST..END)
                .contains(&o.date)
                .then_some((o.customer, o.order))
        })
        .join_map(customers, |_, &order, &nation| (order, nation));
    let result = context
        .table::<LineItem>()
        .explode(|l| Some(((l.order, l.supplier), l.revenue())))
        .join_map(orders, |_, &supplier, &nation| ((supplier, nation), ()))
        .semijoin(suppliers)
        .map(|((_, nation), ())| (nation, ()))
        .arrange_by_key()
        .join_core(nations, |_, (), &name| Some(name))
        .count_total();
    context.output(result, |(name, revenue)| {
        vec![text(name), decimal(*revenue, 4)]
    });
}

pub fn q06(context: &mut Context) {
    const FIRST: i32 = days(1994, 1, 1);
    const END: i32 = days(1995, 1, 1);
    let revenue = context
        .table::<LineItem>()
        .explode(|l| {
            let is_wanted = (FIRST..END).contains(&l.shipped)
                && (5..=7).contains(&l.discount)
                && l.quantity < 2400;
            is_wanted.then(|| ((), (l.price * l.discount) as isize))
        })
        .count_total();
    context.output(revenue, |(_, revenue)| vec![decimal(*revenue, 4)]);
}

pub fn q07(context: &mut Context) {
    const FIRST: i32 = days(1995, 1, 1);
    const LAST: i32 = days(1996, 12, 31);
    let nations = context
        .table::<Nation>()
        .flat_map(|n| {
            let is_wanted = is(&n.name, "FRANCE") || is(&n.name, "GERMANY");
            is_wanted.then_some((n.nation, n.name))
        })
        .arrange_by_key();
    let customers = context
        .table::<Customer>()
        .map(|c| (c.nation, c.customer))
        .arrange_by_key()
        .join_core(nations.clone(), |_, &customer, &name| {
            Some((customer, name))
        });
    let orders = context
        .table::<Order>()
        .map(|o| (o.customer, o.order))
        .join_map(customers, |_, &order, &name| (order, name));
    let suppliers = context
        .table::<Supplier>()
        .map(|s| (s.nation, s.supplier))
        .arrange_by_key()
        .join_core(nations, |_, &supplier, &name| Some((supplier, name)));
    let result = context
        .table::<LineItem>()
        .explode(|l| {
            (FIRST..=LAST)
                .contains(&l.shipped)
                .then(|| ((l.supplier, (l.order, year(l.shipped))), l.revenue()))
        })
        .join_map(suppliers, |_, &(order, year), &name| (order, (name, year)))
        .arrange_by_key()
        .join_core(orders.arrange_by_key(), |_, &(seller, year), &buyer| {
            (seller != buyer).then_some((seller, buyer, year))
        })
        .count_total();
    context.output(result, |((seller, buyer, year), revenue)| {
        vec![
            text(seller),
            text(buyer),
            year.to_string(),
            decimal(*revenue, 4),
        ]
    });
}

pub fn q08(context: &mut Context) {
    const FIRST: i32 = days(1995, 1, 1);
    const LAST: i32 = days(1996, 12, 31);
    let parts = context
        .table::<Part>()
        .flat_map(|p| is(&p.kind, "ECONOMY ANODIZED STEEL").then_some(p.part));
    let regions = context
        .table::<Region>()
        .flat_map(|r| is(&r.name, "AMERICA").then_some(r.region));
    let nations = context.table::<Nation>();
    let american = nations
        .clone()
        .map(|n| (n.region, n.nation))
        .semijoin(regions);
    let customers = context
        .table::<Customer>()
        .map(|c| (c.nation, c.customer))
        .semijoin(american.map(|(_, nation)| nation))
        .map(|(_, customer)| customer);
    let orders = context
        .table::<Order>()
        .flat_map(|o| {
            (FIRST..=LAST)
                .contains(&o.date)
                .then(|| (o.customer, (o.order, year(o.date))))
        })
        .semijoin(customers)
        .map(|(_, order)| order);
    let suppliers = context.table::<Supplier>().map(|s| (s.supplier, s.nation));
    let result = context
        .table::<LineItem>()
        .explode(|l| Some(((l.part, (l.order, l.supplier)), l.revenue())))
        .semijoin(parts)
        .map(|(_, line)| line)
        .join_map(orders, |_, &supplier, &year| (supplier, year))
        .join_map(suppliers, |_, &year, &nation| (nation, year))
        .join_map(
            nations.map(|n| (n.nation, is(&n.name, "BRAZIL"))),
            |_, &year, &is_brazil| (year, is_brazil),
        )
        .explode(|(year, is_brazil)| Some((year, (is_brazil as isize, 1))))
        .count_total();
    context.output(result, |(year, (part, whole))| {
        vec![year.to_string(), (*part as f64 / *whole as f64).to_string()]
    });
}

pub fn q09(context: &mut Context) {
    let parts = context
        .table::<Part>()
        .flat_map(|p| p.name.contains("green").then_some(p.part));
    let costs = context
        .table::<PartSupp>()
        .map(|ps| ((ps.part, ps.supplier), ps.cost));
    let orders = context.table::<Order>().map(|o| (o.order, year(o.date)));
    let suppliers = context.table::<Supplier>().map(|s| (s.supplier, s.nation));
    let nations = context.table::<Nation>().map(|n| (n.nation, n.name));
    let result = context
        .table::<LineItem>()
        .map(|l| (l.part, (l.supplier, l.order, l.revenue(), l.quantity)))
        .semijoin(parts)
        .map(|(part, (supplier, order, revenue, quantity))| {
            ((part, supplier), (order, revenue, quantity))
        })
        .join(costs)
        // A sum of profits may be zero: the number of lines tells whether there is a group.
        .explode(|((_, supplier), ((order, revenue, quantity), cost))| {
            Some(((order, supplier), (revenue - (cost * quantity) as isize, 1)))
        })
        .join_map(orders, |_, &supplier, &year| (supplier, year))
        .join_map(suppliers, |_, &year, &nation| (nation, year))
        .join_map(nations, |_, &year, &name| (name, year))
        .count_total();
    context.output(result, |((name, year), (profit, _))| {
        vec![text(name), year.to_string(), decimal(*profit, 4)]
    });
}

pub fn q10(context: &mut Context) {
    const FIRST: i32 = days(1993, 10, 1);
    const END: i32 = days(1994, 1, 1);
    let nations = context.table::<Nation>().map(|n| (n.nation, n.name));
    let customers = context
        .table::<Customer>()
        .map(|c| {
            (
                c.nation,
                (c.customer, c.name, c.balance, c.phone, c.address, c.comment),
            )
        })
        .join_map(
            nations,
            |_, (customer, name, balance, phone, address, comment), &nation| {
                (
                    *customer,
                    (
                        *name,
                        *balance,
                        nation,
                        *phone,
                        address.clone(),
                        comment.clone(),
                    ),
                )
            },
        );
    let orders = context.table::<Order>().flat_map(|o| {
        (FIRST..END)
            .contains(&o.date)
            .then_some((o.order, o.customer))
    });
    let result = context
        .table::<LineItem>()
        .explode(|l| is(&l.flag, "R").then(|| ((l.order, ()), l.revenue())))
        .join_map(orders, |_, (), &customer| customer)
        .count_total()
        .join_map(customers, |&customer, &revenue, row| {
            (customer, revenue, row.clone())
        });
    context.output(
        result,
        |(customer, revenue, (name, balance, nation, phone, address, comment))| {
            vec![
                customer.to_string(),
                text(name),
                decimal(*revenue, 4),
                decimal(*balance as isize, 2),
                text(nation),
                address.clone(),
                text(phone),
                comment.clone(),
            ]
        },
    );
}

pub fn q11(context: &mut Context) {
    let nations = context
        .table::<Nation>()
        .flat_map(|n| is(&n.name, "GERMANY").then_some(n.nation));
    let suppliers = context
        .table::<Supplier>()
        .map(|s| (s.nation, s.supplier))
        .semijoin(nations)
        .map(|(_, supplier)| supplier);
    let result = context
        .table::<PartSupp>()
        .explode(|ps| {
            Some((
                (ps.supplier, ps.part),
                (ps.cost * ps.available as i64) as isize,
            ))
        })
        .semijoin(suppliers)
        .map(|(_, part)| ((), part))
        .reduce(|_, values, found| {
            let total: isize = values.iter().map(|(_, value)| value).sum();
            let large = values.iter().filter(|(_, value)| value * 10_000 > total);
            found.extend(large.map(|(part, value)| (**part, *value)));
        })
        .map(|(_, part)| part)
        .count_total();
    context.output(result, |(part, value)| {
        vec![part.to_string(), decimal(*value, 2)]
    });
}
