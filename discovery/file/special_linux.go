package file

import "syscall"

// kernels maps magic numbers (linux/magic.h) to names of kernel file systems. These hold no user
// configuration. Some are endless (/proc/PID/root contains the whole machine), and some have side
// effects when they are read.
var kernels = map[uint32]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x64626720: "debugfs", 0x74726163: "tracefs", 0x27e0eb: "cgroup",
	0x63677270: "cgroup2",
	0x1cd1:     "devpts", 0x73636673: "securityfs", 0xf97cff8c: "selinuxfs", 0xcafe4a11: "bpf", 0x62656570: "configfs",
	0x6165676c: "pstore", 0x19800202: "mqueue", 0x42494e4d: "binfmt_misc", 0xde5e81e4: "efivarfs", 0x6e736673: "nsfs",
}

func kernelFileSystem(path string) (string, error) {
	var info syscall.Statfs_t
	if err := syscall.Statfs(path, &info); err != nil {
		return "", err
	}
	return kernels[uint32(info.Type)], nil
}
