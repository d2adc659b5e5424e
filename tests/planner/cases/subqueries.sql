SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y <> a.y)
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y <> a.y)
SELECT a.id FROM a WHERE a.x IN (SELECT x FROM b)
SELECT a.id FROM a WHERE a.x NOT IN (SELECT x FROM b)
SELECT a.id FROM a WHERE a.x NOT IN (SELECT x FROM b WHERE b.y = a.y)
SELECT a.id FROM a WHERE (a.x, a.y) NOT IN (SELECT x, y FROM b)
SELECT a.id FROM a WHERE (a.x, a.y) IN (SELECT x, y FROM b)
SELECT a.id, a.x IN (SELECT x FROM b) AS m FROM a
SELECT a.id, a.x NOT IN (SELECT x FROM b WHERE b.y = a.y) AS m FROM a
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x) OR a.y > 2
SELECT a.id FROM a WHERE NOT (EXISTS (SELECT 1 FROM b WHERE b.x = a.x) OR a.x IN (SELECT y FROM b))
SELECT a.id, (SELECT MAX(b.y) FROM b WHERE b.x = a.x) AS m FROM a
SELECT a.id, (SELECT COUNT(*) FROM b WHERE b.x = a.x) AS m FROM a
SELECT a.id FROM a WHERE a.y > (SELECT AVG(b.y) FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE a.y < (SELECT COUNT(*) FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE 0 = (SELECT COUNT(*) FROM b WHERE b.x = a.x AND b.y > a.y)
SELECT a.id FROM a WHERE a.y >= (SELECT AVG(y) FROM b)
SELECT a.id FROM a WHERE a.y = (SELECT MAX(y) FROM b)
SELECT a.id FROM a WHERE a.y > ALL (SELECT y FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE a.y > ALL (SELECT y FROM b)
SELECT a.id FROM a WHERE a.y <= ANY (SELECT y FROM b)
SELECT a.id FROM a WHERE a.y <= ANY (SELECT y FROM b WHERE b.x=a.x)
SELECT a.id, a.y < ALL (SELECT y FROM b WHERE b.x=a.x) AS m FROM a
SELECT a.id, a.y <> ALL (SELECT y FROM b WHERE b.x=a.x) AS m FROM a
SELECT a.id, a.y <> ANY (SELECT y FROM b WHERE b.x=a.x) AS m FROM a
SELECT a.id, b.y FROM a LEFT JOIN b ON a.x = b.x
SELECT a.id, b.y FROM a RIGHT JOIN b ON a.x = b.x AND a.y < b.y
SELECT a.id, b.y FROM a FULL OUTER JOIN b ON a.x = b.x AND a.y <= b.y
SELECT a.id, b.y FROM a FULL OUTER JOIN b ON a.x = b.x AND a.y = 1 AND b.y = 2
SELECT a.id, b.y, c.z FROM a LEFT JOIN b ON a.x = b.x LEFT JOIN c ON b.y = c.x
SELECT a.id, b.y, c.z FROM a LEFT JOIN b ON a.x = b.x JOIN c ON a.y = c.x
SELECT a.id, b.y FROM a CROSS JOIN b
SELECT x, MIN(y) AS lo, MAX(y) AS hi, COUNT(DISTINCT y) AS d, SUM(y) AS s FROM a GROUP BY x
SELECT MIN(y) AS lo, MAX(y) AS hi, COUNT(DISTINCT y) AS d, SUM(DISTINCT x) AS s FROM a
SELECT x, ANY_VALUE(x) AS lo FROM a GROUP BY x
SELECT x FROM a UNION SELECT x FROM b
SELECT x, y FROM a INTERSECT SELECT x, y FROM b
SELECT x, y FROM a EXCEPT ALL SELECT x, y FROM b
SELECT x FROM a INTERSECT ALL SELECT x FROM b
SELECT x FROM a EXCEPT SELECT x FROM b
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND EXISTS (SELECT 1 FROM c WHERE c.x = b.y AND c.z = a.y))
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND NOT EXISTS (SELECT 1 FROM c WHERE c.x = b.y AND c.z <> a.y))
SELECT a.id FROM a WHERE a.x IN (SELECT b.x FROM b GROUP BY b.x HAVING SUM(b.y) > 2)
SELECT a.id FROM a WHERE a.x IN (SELECT b.x FROM b GROUP BY b.x HAVING SUM(b.y) > a.y)
SELECT a.id, (SELECT SUM(b.y) FROM b WHERE b.x = a.x AND b.y > (SELECT AVG(c.z) FROM c WHERE c.x = a.x)) AS m FROM a
SELECT a.id FROM a WHERE EXISTS (SELECT x FROM b WHERE b.x = a.x UNION ALL SELECT x FROM c WHERE c.z = a.y)
SELECT x, SUM(y) AS s FROM a GROUP BY x HAVING SUM(y) > (SELECT AVG(y) FROM b)
SELECT x, SUM(y) AS s FROM a GROUP BY x HAVING SUM(y) >= (SELECT MAX(t) FROM (SELECT SUM(y) AS t FROM a GROUP BY x) q)
SELECT a.id FROM a WHERE a.y > (SELECT AVG(y) FROM b) AND NOT EXISTS (SELECT 1 FROM c WHERE c.x = a.x)
SELECT a.x, COUNT(*) AS n, SUM(a.y) AS s FROM a WHERE a.y > (SELECT AVG(b.y) FROM b WHERE b.y > 0) AND NOT EXISTS (SELECT 1 FROM c WHERE c.x = a.x) AND EXISTS (SELECT 1 FROM b WHERE b.x = a.x) GROUP BY a.x
SELECT a.id, v.k FROM a JOIN (VALUES (1, 2), (2, 3)) AS v(k, w) ON a.x = v.k
SELECT a.id, STDDEV(b.y) AS s, VAR_POP(b.y) AS v FROM a JOIN b ON a.x = b.x GROUP BY a.id
SELECT x, COUNT(*) FILTER (WHERE y > 1) AS n, BOOL_AND(y > 1) AS q FROM a GROUP BY x
SELECT * FROM a ORDER BY y DESC, id LIMIT 3 OFFSET 1
SELECT a.id, (SELECT y FROM b WHERE b.x = a.x ORDER BY y LIMIT 1) AS m FROM a
SELECT a.id FROM a WHERE a.x IN (SELECT b.y FROM b WHERE b.x = a.x) AND a.y NOT IN (SELECT z FROM c WHERE c.x = a.x)
SELECT x, STDDEV(y) AS s, VAR_POP(y) AS v, VAR_SAMP(CAST(y AS DOUBLE)) AS d, STDDEV_POP(CAST(y AS DECIMAL(10,2))) AS e FROM b GROUP BY x
SELECT STDDEV(DISTINCT y) AS s FROM b
SELECT t.x, t.s FROM (SELECT x, SUM(y) AS s FROM b GROUP BY x) t LEFT JOIN (SELECT x, MAX(y) AS m FROM a GROUP BY x) u ON t.x = u.x AND u.m > 1
SELECT a.id, u.n FROM a LEFT JOIN (SELECT x, COUNT(*) AS n FROM b GROUP BY x) u ON u.x = a.x WHERE u.n IS NULL OR u.n > 1
SELECT a.id FROM a LEFT JOIN b ON a.x = b.x WHERE b.x IS NULL
SELECT a.id, b.x FROM a LEFT JOIN b ON a.x = b.x AND a.y > 1 AND b.y > 1 WHERE a.y < 3
SELECT a.id, COALESCE(b.y, -1) AS q, c.z FROM a LEFT JOIN b ON a.x <=> b.x FULL JOIN c ON c.x = b.y
SELECT a.id, (SELECT COUNT(DISTINCT b.y) FROM b WHERE b.x = a.x OR b.y = a.y) AS m FROM a
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x OR b.y = a.y)
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b LEFT JOIN c ON b.y = c.x AND c.z = a.y WHERE b.x = a.x AND c.z IS NULL)
SELECT a.id, (SELECT MAX(t.s) FROM (SELECT b.y, SUM(b.x) AS s FROM b WHERE b.x = a.x GROUP BY b.y) t) AS m FROM a
SELECT a.id, (SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING COUNT(*) > 1) AS m FROM a
SELECT a.id FROM a WHERE a.x IN (SELECT COUNT(*) FROM b WHERE b.x = a.x)
SELECT a.id FROM a WHERE EXISTS (SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING SUM(b.y) > 2)
SELECT a.id FROM a WHERE a.y > (SELECT MIN(b.y) FROM b WHERE b.x = a.x) AND a.y < (SELECT MAX(c.z) FROM c WHERE c.x = a.x)
SELECT a.id, b.y FROM a JOIN b ON a.x = b.x WHERE a.y + b.y > (SELECT AVG(c.z) FROM c)
SELECT a.id FROM a WHERE a.x IN (SELECT x FROM b) OR a.y IN (SELECT z FROM c)
SELECT a.id FROM a WHERE a.x NOT IN (SELECT x FROM b) AND a.y NOT IN (SELECT z FROM c) AND NOT EXISTS (SELECT 1 FROM c WHERE c.x = a.x)
SELECT CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.x = a.x) THEN 'y' ELSE 'n' END AS f, COUNT(*) AS n FROM a GROUP BY 1
SELECT a.x, COUNT(*) AS n FROM a GROUP BY a.x HAVING EXISTS (SELECT 1 FROM b WHERE b.x = a.x) AND COUNT(*) >= (SELECT COUNT(*) FROM c WHERE c.x = a.x)
SELECT a.id FROM a WHERE (SELECT COUNT(*) FROM b) > a.y
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b)
SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y > 2)
SELECT a.id, (SELECT SUM(b.y) FROM b WHERE b.x = a.x + 1) AS m FROM a
SELECT a.id, (SELECT b.y + a.y FROM b WHERE b.x = a.x ORDER BY b.y DESC LIMIT 1) AS m FROM a
SELECT a.id FROM a WHERE a.x IN (SELECT b.x FROM b INTERSECT SELECT c.x FROM c WHERE c.z = a.y)
SELECT a.id FROM a WHERE a.x IN (SELECT b.x FROM b EXCEPT SELECT c.x FROM c WHERE c.z = a.y)
SELECT a.id FROM a WHERE a.x = ALL (SELECT b.x FROM b WHERE b.y = a.y)
SELECT a.id FROM a WHERE a.id IN (SELECT MAX(id) FROM a GROUP BY x)
SELECT x, AVG(DISTINCT y) AS v, COUNT(*) AS n, COUNT(DISTINCT id) AS m, MAX(id) AS k FROM a GROUP BY x
WITH r AS (SELECT x, SUM(y) AS t FROM b GROUP BY x) SELECT a.id, t FROM a, r WHERE a.x = r.x AND t = (SELECT MAX(t) FROM r)
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y IN (SELECT c.z FROM c WHERE c.x = a.y))
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y NOT IN (SELECT c.z FROM c WHERE c.x = a.y))
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y > ALL (SELECT c.z FROM c WHERE c.x = a.y))
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND (b.y = 1 OR EXISTS (SELECT c.z FROM c WHERE c.x = a.y AND c.z >= b.y)))
SELECT a.id, (SELECT COUNT(*) FROM b WHERE b.x = a.x AND b.y = (SELECT MIN(c.z) FROM c WHERE c.x = a.x)) AS m FROM a
SELECT a.id, (SELECT COUNT(*) FROM b FULL JOIN c ON b.y = c.x AND b.x = a.x) AS m FROM a
SELECT a.id, b.y FROM a JOIN b ON a.x < b.y
SELECT a.id, c.z FROM a JOIN c ON a.x >= c.z AND a.y <> c.x
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.y > a.y)
SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y <= a.y)
SELECT id, (SELECT COUNT(*) FROM b WHERE b.y < a.y) AS n FROM a
SELECT id FROM a WHERE x = (SELECT SUM(y) FROM b WHERE b.y <> a.y)
SELECT id FROM a WHERE x IN (SELECT x FROM b WHERE b.y < a.y AND EXISTS (SELECT 1 FROM c WHERE c.z > b.y AND c.x <> a.id))
SELECT a.id, s.y FROM a, LATERAL (SELECT b.y FROM b WHERE b.x = a.x) s
SELECT a.id, s.z FROM a JOIN LATERAL (SELECT b.y + a.y AS z, b.y FROM b WHERE b.x = a.x) s ON s.y > a.id
SELECT a.id, s.y, s.z FROM a LEFT JOIN LATERAL (SELECT b.y, b.y + a.y AS z FROM b WHERE b.x = a.x) s ON s.y <> a.id
SELECT a.id, s.n, s.m FROM a, LATERAL (SELECT COUNT(*) AS n, MAX(y) AS m FROM b WHERE b.x = a.x) s
SELECT a.id, s.n FROM a LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM b WHERE b.x < a.x HAVING COUNT(*) > 1) s
SELECT a.id, s.y FROM a, LATERAL (SELECT y FROM b WHERE b.x = a.x ORDER BY y DESC LIMIT 2) s
SELECT a.id, s.x, s.n FROM a LEFT JOIN LATERAL (SELECT x, COUNT(*) AS n FROM b WHERE b.y >= a.y GROUP BY x) s
SELECT a.id, s.y, r.z FROM a, LATERAL (SELECT y FROM b WHERE b.x = a.x) s, LATERAL (SELECT z FROM c WHERE c.x = s.y AND c.z <> a.y) r
SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT z FROM c WHERE c.x = b.y AND c.z > a.y) s WHERE b.x = a.x)
SELECT a.id, s.c FROM a, LATERAL (SELECT a.y AS c UNION ALL SELECT y FROM b WHERE b.x = a.x) s
SELECT a.id, b.y FROM a LEFT JOIN b ON b.x = a.x AND EXISTS (SELECT 1 FROM c WHERE c.x = b.y AND c.z >= a.y)
SELECT a.id, b.y FROM a FULL JOIN b ON EXISTS (SELECT 1 FROM c WHERE c.x = b.y AND c.z = a.y)
SELECT a.id FROM a LEFT ANTI JOIN b ON b.y IN (SELECT z FROM c WHERE c.x = a.x)
SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.x = 1 AND b.y > (SELECT avg(z.y) FROM b z WHERE z.x = a.id)
SELECT a.id, n FROM a, (SELECT x, max(y) AS m, count(*) AS n FROM b GROUP BY x) g WHERE g.x = a.id AND a.y = 1 AND a.x <= m
SELECT c.z, s FROM c, a, a d, (SELECT x, sum(y) AS s FROM b GROUP BY x) g WHERE g.x = a.id AND a.x = d.id AND d.y = 1 AND c.x = g.x
SELECT a.id, s FROM a, (SELECT x + 1 AS k, sum(y) AS s FROM b GROUP BY x + 1) g WHERE g.k = a.id AND a.y = 1
SELECT a.id, s FROM a, (SELECT x, y, count(*) AS s FROM b GROUP BY x, y) g WHERE g.x = a.id AND g.y <=> a.y AND a.x = 1
SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.y = 1 AND EXISTS (SELECT 1 FROM c WHERE c.x = b.x AND c.z <> b.y)
SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.y = 1 AND EXISTS (SELECT 1 FROM c WHERE c.x = b.x AND c.z <> b.y) AND NOT EXISTS (SELECT 1 FROM b d WHERE d.x = b.x AND d.y > b.y)
SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.y = 1 AND (b.y = 2 OR NOT EXISTS (SELECT 1 FROM c WHERE c.x = b.x AND c.z < b.y))
SELECT l.x, l.y, c.z FROM (SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.y = 1) l LEFT JOIN c ON c.x = l.x AND c.z < l.y
SELECT l.x, l.y, c.z FROM (SELECT b.x, b.y FROM b, a WHERE b.x = a.id AND a.y = 1) l FULL JOIN c ON c.x = l.x AND c.z < l.y
SELECT a.id, count(b.y) AS n FROM a LEFT JOIN b ON a.id = b.x GROUP BY a.id
SELECT a.id, a.y, count(*) AS n, count(b.y) AS m, min(b.y) AS least, max(b.y) AS most FROM a LEFT JOIN b ON a.x = b.x AND b.y > 0 GROUP BY a.id, a.y
SELECT n, count(*) AS m FROM (SELECT a.id, count(b.y) AS n FROM a LEFT JOIN b ON a.x <=> b.x GROUP BY a.id) GROUP BY n
SELECT a.x, count(b.y) AS n FROM a LEFT JOIN b ON a.id = b.x GROUP BY a.x
SELECT a.id, count(a.y) AS n FROM a LEFT JOIN b ON a.id = b.x AND b.y = a.y GROUP BY a.id
