# Installs the pages that `extensor pages` writes, where shells and man look for them.

set(_from ${CMAKE_CURRENT_BINARY_DIR}/pages)
install(FILES ${_from}/extensor.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool)
install(FILES ${_from}/extensor.bash RENAME extensor COMPONENT tool
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${_from}/_extensor COMPONENT tool
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${_from}/extensor.fish COMPONENT tool
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
