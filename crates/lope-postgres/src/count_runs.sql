-- How many runs there are by status, as users see it, without those that completed. Of those that ended the same way a
-- bounded number is counted (limit::ENDED_COUNTED_MAX), by the tag that they have for it. Live ones are found through
-- their index, as in count_queues.sql.
select case when q.status = 'queued' and q.owner is not null then 'running'
            when q.status = 'running' and q.owner is null then 'queued'
            else q.status end,
       count(*)
from {schema}.queue q where q.run_id >= '00000000-0000-0000-0000-000000000000' group by 1
union all
select 'failed', count(*) from (select from {schema}.run_tags t where t.tag = '' and t.value = 'failed' limit 100000) t having count(*) > 0
union all
select 'cancelled', count(*) from (select from {schema}.run_tags t where t.tag = '' and t.value = 'cancelled' limit 100000) t having count(*) > 0
