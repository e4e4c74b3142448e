// Package process runs Penstock as a user does: the built binary and the real Envoy, as processes
// with a log file each. On Linux, a process ends with the process that started it. Package
// processtest has the common part of test rigs.
package process
