select * from t left join u on t.a = u.a and t.b < u.c
select * from t right join u on t.a = u.a
select t.a, t.s, u.a, u.c from t full join u on t.a = u.a and u.c > 1
select t.a, u.c from t full join u on t.a < u.a and t.b is null
select a, t.b, c from t full join u using (a)
select * from u left join (select a, b from t) z using (a)
select a, b, c from t right join u using (a)
select a, b, c from (select a, b from t) natural full join u
select a, count(*) from t full join u using (a) full join (select c as a from u) v using (a) group by a
select * from u left semi join t on t.a = u.a and t.b <= u.c
select * from u left anti join t on t.a = u.a and t.b <= u.c
select * from u left anti join t on u.c is null
select t.a, v.c from t, u left join u v on t.a = v.a and u.c = v.c
select t.a, u.c from t left join u on u.a = t.a and u.c = (select max(z.c) from u z where z.a = u.a)
select t.a, u.c from t left join u on u.a = t.a and exists (select 1 from u z where z.c = t.b)
select t.a from t left semi join u on t.a = u.a and u.c in (select b from t)
select t.a, u.c from t join u on u.a = t.a and not exists (select 1 from t z where z.b = u.c and z.a = t.a)
select a from t where exists (select 1 from u where u.a = t.a)
select a from t where not exists (select null from u where u.a = t.a and u.c > t.b)
select a from t where exists (select 1 from u where u.a = t.a) or b = 3
select a from t where a in (select a from u)
select a from t where a not in (select a from u)
select a from t where a not in (select a from u where a is not null)
select a from t where b in (select c from u where u.a = t.a)
select a from t where b not in (select c from u where u.a = t.a)
select a, b in (select c from u), b not in (select c from u where c is not null) from t
select a, b in (select c from u where false) from t
select a from t where (a, b) in (select a, c from u)
select a, (a, b) in (select a, c from u), (b, a) not in (select c, a from u where u.a <> 3) from t
select a from t where (a, b) not in (select a, c from u where c > 1)
select a from t where e in (select c from u)
select a from t where b > all (select c from u where u.a = t.a)
select a from t where b >= any (select c from u)
select a from t where b <> all (select c from u where c is not null)
select a, b < any (select c from u where u.a = t.a) from t
select a, (select max(c) from u where u.a = t.a) from t
select a, (select count(*) from u where u.a = t.a) n from t
select a, (select count(c) + 1 from u where u.a = t.a and c > 100) n from t
select a, (select sum(c) from u where u.a = t.a having count(*) > 1) from t
select a from t where a > (select avg(c) from u)
select a from t where a = (select min(c) from u where u.a = t.b)
select case when exists (select 1 from u where u.a = t.a) then 1 else (select min(c) from u) end from t
select coalesce((select max(c) from u where u.a = t.a and c > 1), -1) x, a from t where not (b in (select c from u) and a < 3)
select a, (select (select max(z.c) from u z where z.c <= y.c and z.a = t.a) from u y where y.a = 6) from t
select a from t where exists (select 1 from u where u.a = t.a and c >= (select max(z.c) from u z where z.a = t.b))
select a from t where exists (select 1 from u where u.c = t.b and not exists (select 1 from u y where y.a = t.a and y.c > u.c))
select a from t where exists (select 1 from (select a, count(*) n from u where u.c >= t.b group by a) z where z.n > 1)
select a from t where exists (select u.a from u group by u.a, t.b having count(*) > t.b)
select a from t where a = (select c from u where u.a = t.a order by c desc, a limit 1)
select a, sum(b) s from t group by a having sum(b) > (select avg(c) from u where u.a = t.a)
select a, sum(b) s from t group by a having exists (select 1 from u where u.a = t.a and c < 2) or count(*) > 1
select (select max(c) from u where u.a = t.a) x, count(*) from t group by (select max(c) from u where u.a = t.a)
select sum((select max(c) from u where u.a = t.a)), max(a) from t
select count(*) filter (where exists (select 1 from u where u.a = t.a)) from t
select a, max(b) from t group by a having max(b) = (select max(b) from t z where z.a = t.a)
with x as (select a, sum(c) as n from u group by a) select t.a from t join x on t.a = x.a where n = (select max(n) from x)
with x as (select a, c from u) select a from t where exists (select 1 from x where x.a = t.a and exists (select 1 from x y where y.a = t.b))
select a from t where exists (with x as (select * from u where u.a = t.a) select 1 from x where exists (select 1 from x y where y.c >= x.c))
select a from t where exists (select a from t z where z.b = t.b intersect select c from u where c = t.a)
select a from t where a in (select c from u union all select a from u where a = t.b)
select a from t intersect select a from u
select b from t intersect all select c from u
select b from t intersect select c from u
select b, a from t except select c, a from u
select c from u except all select b from t
select b from t except select c from u union all select c from u
select b from t union select c from u intersect select a from t
select a, e from t except select c, 1.50 from u
(select a from t except select a from u) union all (select c from u intersect all select b from t) order by 1
select distinct b from t union all values (1), (null)
select * from (values (1, 'a'), (2, null)) v(x, y) join t on t.a = v.x
select 1 + 1 as x, 'a' as y
select (select max(a) from t) as x, exists (select 1 from u where c > 100) as y
select min(a), max(s), max(f), min(e), min(d), count(distinct b), count(distinct a, s), sum(distinct e), avg(distinct b) from t
select a, min(b), max(s), count(distinct e), count(b) from t group by a
select count(*) filter (where a > 1), count(b) filter (where a > 1), sum(b) filter (where b > 1), max(a) filter (where b is null) from t
select a, sum(b) filter (where b > 1), count(*) filter (where b is null) from t group by a
select count_if(a > 1), count_if(b > 1), bool_and(a > 0), bool_and(b > 1), bool_or(b > 100), bool_or(s = 'x') from t
select a, bool_and(b > 1), bool_or(b > 1), count_if(b is null) from t group by a
select bool_and(a > 0), bool_or(a > 0), min(a), stddev(a) from t where a > 100
select stddev(a), stddev_samp(b), stddev_pop(a), variance(a), var_samp(b), var_pop(b) from t
select a, stddev(b), var_pop(b), variance(a) from t group by a
select count(distinct f), count(distinct f, a) from t
select a, b from t order by a, b nulls last, s offset 3
select a from t order by a desc limit 2 offset 1
select s ilike 'X%', s like any ('x%', '%y'), s like all ('x%', '%y'), upper(s), right(s, 1), length(s) from t
select a from t where (a, b) in ((1, 1), (2, 3))
select last_day(d), quarter(d), add_months(d, 1), d + interval 1 day from t
select sign(a - 2), mod(a, 2), ceiling(e), nullif(a, 1), nvl2(b, a, -1), if(a > 1, 'x', 'y') from t
select a from t group by a having exists (select 1 from u where c < min(t.b))
select a, max(b) from t group by a having not exists (select 1 from u where u.a > t.a and c < max(b))
select a from t group by a having a in (select u.a from u where c <= sum(b))
select count(*) from t having exists (select 1 from u where u.a = max(b) and c <= count(t.s))
select a from t group by a having exists (select 1 from u where exists (select 1 from u z where z.c = u.a + min(t.b) - 1))
select a from t group by a having (select max(c) from u where c <> max(b)) > min(b)
