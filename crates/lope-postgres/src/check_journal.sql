-- Runs whose journal has a gap or does not end at its head. A fork's journal begins behind its snapshot. At most $1.
select format('the journal of run %s has a gap or does not end at row %s', r.run_id, r.head)
from (
        select r.run_id, coalesce(q.head, r.head) as head, coalesce(s.seq, 0) as base
        from {schema}.runs r
            left join {schema}.queue q on q.run_id = r.run_id
            left join {schema}.snapshots s on s.run_id = r.run_id
    ) r
    left join (
        select j.run_id, min(j.seq) as first, max(j.seq) as last, count(*) as rows from {schema}.journal j group by j.run_id
    ) j on j.run_id = r.run_id
where case when j.run_id is null then r.head <> r.base
           else j.last <> r.head or j.last - j.first + 1 <> j.rows or (j.first <> 1 and j.first > r.base + 1) end
union all
select format('journal rows of run %s have no run', j.run_id)
from (select distinct j.run_id from {schema}.journal j) j
where not exists (select from {schema}.runs r where r.run_id = j.run_id)
limit $1
