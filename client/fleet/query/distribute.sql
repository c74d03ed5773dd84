-- the table over those of all nodes of a cluster
--
-- internal
CREATE TABLE IF NOT EXISTS :database.:table ON CLUSTER :cluster AS :database.:local
ENGINE = Distributed(:cluster, :database, :local, :key)
