# Moves the generator to where the systemd of this Debian has its own. That is /lib in Debian 12, and
# dpkg does not see that /lib is /usr/lib: it would take the directory for ours alone, and warn at
# purge that it is not empty.
set(installed ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/systemd/system-generators)
set(wanted ${CPACK_TEMPORARY_DIRECTORY}${CPACK_TS_GENERATOR_DIR})
if(NOT wanted STREQUAL installed)
  get_filename_component(parent ${wanted} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(RENAME ${installed} ${wanted})
endif()
