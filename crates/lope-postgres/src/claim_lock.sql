-- Who claims from a queue with a bound waits for its turn, until the transaction ends: $1 the queue. What is counted next is then
-- what no other claim can change.
select pg_advisory_xact_lock(hashtextextended('lope claim {schema} ' || $1, 0))
