-- How many runs there are by status, as users see it.
select case when q.status = 'queued' and q.owner is not null then 'running'
            when q.status = 'running' and q.owner is null then 'queued'
            else q.status end,
       count(*)
from {schema}.queue q group by 1
union all
select r.status, count(*) from {schema}.runs r where r.status <> 'live' group by 1
