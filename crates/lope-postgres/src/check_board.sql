-- Rows of the board whose revision no writer ever gave. At most $1.
select format('a row of %s has the revision %s', b.kind, b.revision)
from (
        select 'projects' as kind, revision from {schema}.projects
        union all
        select 'sections', revision from {schema}.sections
        union all
        select 'tasks', revision from {schema}.tasks
        union all
        select 'task_locks', revision from {schema}.task_locks
        union all
        select 'task_attempts', revision from {schema}.task_attempts
        union all
        select 'task_events', revision from {schema}.task_events
        union all
        select 'task_hooks', revision from {schema}.task_hooks
        union all
        select 'runners', revision from {schema}.runners
    ) b
where b.revision < 0
limit $1
