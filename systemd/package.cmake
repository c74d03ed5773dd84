# cpack: a Debian package, or for a bundle a tarball to unpack anywhere.
set(doc_dir share/doc/tracesmith)
set(debian ${CMAKE_CURRENT_LIST_DIR}/debian)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/debian)

set(CPACK_PACKAGE_NAME tracesmith)
set(CPACK_PACKAGE_VENDOR TraceSmith)
set(CPACK_PACKAGE_CONTACT "TraceSmith maintainers <maintainers@users.noreply.tracesmith.example>")
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION
"see what every GPU process on a host does
tracesmithd traces every CUDA process on a host through eBPF, with no change
to the process: calls, memory, leaks with the code that allocated, and
timelines of streams. tsctl queries the daemon, records exact GPU times of
chosen processes, and compares and replays recordings.")
set(CPACK_PACKAGE_HOMEPAGE_URL "https://tracesmith.example/")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)

if(TS_BUNDLE)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME tracesmith-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
else()
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  # One package of all that has no component.
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL Unspecified)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME tracesmith)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "systemd")
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "libmicrohttpd12, librsvg2-2, libcurl4, python3-tracesmith") # tsctl loads the first three
  foreach(script postinst prerm postrm)
    list(APPEND CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA ${debian}/${script})
  endforeach()
  file(WRITE ${generated}/conffiles "/etc/tracesmith/ship.conf\n/etc/tracesmith/tracesmithd.conf\n")
  list(APPEND CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA ${generated}/conffiles)

  find_package(PkgConfig)
  if(PKG_CONFIG_FOUND)
    pkg_get_variable(CPACK_TS_GENERATOR_DIR systemd systemdsystemgeneratordir)
  endif()
  if(CPACK_TS_GENERATOR_DIR)
    set(CPACK_PRE_BUILD_SCRIPTS ${debian}/generator.cmake)
  endif()

  configure_file(${debian}/changelog.in ${generated}/changelog @ONLY)
  add_custom_command(OUTPUT ${generated}/changelog.gz
    COMMAND gzip -9nc ${generated}/changelog > ${generated}/changelog.gz
    DEPENDS ${generated}/changelog)
  add_custom_target(ts_changelog ALL DEPENDS ${generated}/changelog.gz)
  install(FILES ${generated}/changelog.gz DESTINATION ${doc_dir})

  # ts_library(component package depends description): a package of one library. With SHLIBDEPS cpack would add scripts that
  # call ldconfig, which the trigger is for.
  macro(ts_library component package depends description)
    string(TOUPPER ${component} upper)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME lib${package}1)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}")
    file(WRITE ${generated}/${component}/shlibs "lib${package} 1 lib${package}1\n")
    file(WRITE ${generated}/${component}/triggers "activate-noawait ldconfig\n")
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
      ${generated}/${component}/shlibs ${generated}/${component}/triggers)
    install(FILES ${generated}/changelog.gz ${debian}/copyright
      DESTINATION share/doc/lib${package}1 COMPONENT ${component})
    string(APPEND libraries "lib${package}1 (= ${PROJECT_VERSION}), ")
  endmacro()
  ts_library(range tracesmith-range "libc6 (>= 2.18)"
"marks spans of a program for the GPU tracer TraceSmith
Its functions do nothing but carry a probe of tracesmithd, which shows the
spans on timelines and in queries.")
  ts_library(client tracesmith-client "libc6 (>= 2.34), libprotobuf-c1 (>= 1.0.1)"
"asks the GPU tracer TraceSmith what GPU processes do
Connects to tracesmithd or opens a recording, and gives the answers of queries
as rows of typed cells, with what is missing from them.")
  set(CPACK_DEBIAN_CLIENT_PACKAGE_SUGGESTS tracesmith) # its tsctl reads recordings
  list(APPEND CPACK_COMPONENTS_ALL dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtracesmith-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
  string(REGEX REPLACE ", $" "" CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${libraries}")
  set(CPACK_COMPONENT_DEV_DESCRIPTION
"headers of TraceSmith's libraries
What programs need that mark spans of theirs for the GPU tracer TraceSmith, or
ask its daemon.")
  install(FILES ${generated}/changelog.gz ${debian}/copyright
    DESTINATION share/doc/libtracesmith-dev COMPONENT dev)

  if(TARGET ts_python)
    list(APPEND CPACK_COMPONENTS_ALL python)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tracesmith)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.8), python3-protobuf (>= 3.20)")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS libtracesmith-range1)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "tracesmith, python3-pandas, python3-matplotlib")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${debian}/python/postinst ${debian}/python/prerm)
    set(CPACK_COMPONENT_PYTHON_DESCRIPTION
"Python client of the GPU tracer TraceSmith
The package tracesmith asks tracesmithd what the GPU processes of this host do,
and reads recordings: queries with their losses, SQL, live subscriptions,
attaching and recording, from scripts and notebooks.")
    install(FILES ${generated}/changelog.gz ${debian}/copyright
      DESTINATION share/doc/python3-tracesmith COMPONENT python)
  endif()
endif()
install(FILES ${debian}/copyright ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${doc_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${doc_dir}/docs FILES_MATCHING PATTERN *.md PATTERN *.svg
  PATTERN man EXCLUDE PATTERN completion EXCLUDE)
include(CPack)
