-- A row if version $1 is the latest of its name, with the body $2.
select 1
from {schema}.workflows w
where w.version = $1 and w.body = $2
    and w.deployed_at = (select max(o.deployed_at) from {schema}.workflows o where o.name = w.name)
