-- the names of operations in a window, and the numbers that stand for them
--
-- internal
SELECT DISTINCT cityHash64(name) AS id, name FROM op WHERE :in_window AND :asked AND name != ''
LIMIT :limit
