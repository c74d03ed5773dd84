# The queries, from their files to rows of C: queries.h in the build folder, which table.c includes.
# docs/internals.md says what stands in such a file; unknown words of its head fail to compile.

# What `tsctl query list` shows, in its order. Internal queries are not in it.
set(listed
  ps
  processes
  apis
  launches
  memory
  leaks
  fragmentation
  fragmentation-sizes
  fragmentation-history
  oom
  transfers
  syncs
  streams
  states
  errors
  loss
  kernels
  idle
  overlap
  pageable
  waste
  graphs
  ranges
  collectives
  critical-path
  pools
  devices
  cost)

# query_literal(text result): `text` as C strings, its @PHRASE@s as macros between them.
function(query_literal text result)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REGEX REPLACE "@([A-Z0-9_]+)@" "\" \\1 \"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  set(${result} "\"${text}\"" PARENT_SCOPE)
endfunction()

# query_words(prefix words result): "a b-c" as PREFIX_A | PREFIX_B_C.
function(query_words prefix words result)
  string(TOUPPER "${words}" words)
  string(REPLACE "-" "_" words "${words}")
  string(REGEX REPLACE "([A-Z0-9_]+)" "${prefix}_\\1" words "${words}")
  string(REPLACE " " " | " words "${words}")
  set(${result} "${words}" PARENT_SCOPE)
endfunction()

# query_columns(lines result): lines of "--   name type" as rows of struct query_column.
function(query_columns lines result)
  set(columns "")
  string(REGEX MATCHALL "\n--   [^\n]+" lines "${lines}")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^\n--   ([a-z0-9_]+) +([a-z_]+)$")
      message(FATAL_ERROR "This is no '--   column type':${line}")
    endif()
    string(TOUPPER "${CMAKE_MATCH_2}" type)
    list(APPEND columns "{ \"${CMAKE_MATCH_1}\", COLUMN_${type} }")
  endforeach()
  list(JOIN columns ", " columns)
  set(${result} "${columns}" PARENT_SCOPE)
endfunction()

# What the words of these become.
set(prefix_options QUERY)
set(prefix_about ABOUT)
set(prefix_records TS_RECORD)
set(prefix_flags QUERY_IS)

# query_row(name result): a query's file as a row of struct query.
function(query_row name result)
  file(READ ${folder}/${name}.sql file)
  string(REPLACE ";" "<semicolon>" file "${file}") # which CMake takes for the end of an item
  string(REGEX MATCH "^(--[^\n]*\n)+" head "${file}")
  if(NOT head MATCHES "^-- ([^\n]+)\n--\n")
    message(FATAL_ERROR "${name}.sql must start with what it shows and an empty comment")
  endif()
  query_literal("${CMAKE_MATCH_1}" value)
  set(row ".name = \"${name}\",\n.text = ${value},\n")
  query_columns("${head}" value)
  string(APPEND row ".column = COLUMNS(${value}),\n")

  string(REGEX MATCHALL "-- [a-z]+: [^\n]+" lines "${head}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "-- ([a-z]+): (.+)" line "${line}")
    set(key ${CMAKE_MATCH_1})
    set(value "${CMAKE_MATCH_2}")
    if(DEFINED prefix_${key})
      query_words(${prefix_${key}} "${value}" value)
    elseif(key STREQUAL "window")
      string(REGEX REPLACE " s$" " * NS_PER_S" value "${value}")
      set(key window_ns)
    elseif(key MATCHES "^(nothing|search)$")
      query_literal("${value}" value)
    endif()
    string(APPEND row ".${key} = ${value},\n")
  endforeach()

  string(LENGTH "${head}" start)
  string(SUBSTRING "${file}" ${start} -1 sql)
  string(REGEX REPLACE "\n[\t ]*--[^\n]*" "" sql "${sql}")
  string(FIND "${sql}" "\nORDER BY " end REVERSE)
  if(end LESS 0 OR NOT sql MATCHES "\nLIMIT :limit\n$")
    message(FATAL_ERROR "${name}.sql must end with lines 'ORDER BY ...' and 'LIMIT :limit'")
  endif()
  string(SUBSTRING "${sql}" ${end} -1 order)
  string(SUBSTRING "${sql}" 0 ${end} sql)
  string(REGEX REPLACE "^\nORDER BY |\nLIMIT :limit\n$" "" order "${order}")
  query_literal("${sql}" sql)
  query_literal("${order}" order)
  string(APPEND row ".sql =\n${sql},\n.order = ${order},\n")
  string(REPLACE "<semicolon>" ";" row "${row}")
  set(${result} "${row}" PARENT_SCOPE)
endfunction()

set(folder ${CMAKE_CURRENT_LIST_DIR})
file(GLOB files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.sql)
set(rows "")
list(TRANSFORM files REPLACE "\\.sql$" "")
list(REMOVE_ITEM files ${listed})
foreach(name IN LISTS listed files)
  query_row(${name} row)
  if(name IN_LIST files AND NOT row MATCHES "QUERY_IS_INTERNAL")
    message(FATAL_ERROR "${name} is not in the list of embed.cmake")
  endif()
  string(APPEND rows "{\n${row}},\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${name}.sql)
endforeach()
file(CONFIGURE OUTPUT store/query/queries.h @ONLY CONTENT
  "static const struct query queries[] = {\n@rows@};\n")
