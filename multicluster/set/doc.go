// Package set makes this cluster a member of its cluster set: it follows the ClusterSet, exports
// pools to members, and stores members' exports. It connects the packages of multicluster to each
// other and to the process. Follow runs after a change is committed to the xDS cache, so members
// receive no endpoint before the local Envoys.
//
// Before a ClusterSet gives this cluster a name, no connection is made and no port is open. The
// name is fixed until the process ends. Members are served over mTLS only. A failed read or write
// causes a finding on the ClusterSet or one log line, and affects nothing else.
package set
