package file

import "syscall"

// kernels are the file systems that the kernel makes, by their magic numbers (linux/magic.h): what
// is below is no user's configuration, has no end (/proc/PID/root is the machine), or acts when it
// is read.
var kernels = map[uint32]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x64626720: "debugfs", 0x74726163: "tracefs", 0x27e0eb: "cgroup",
	0x63677270: "cgroup2",
	0x1cd1:     "devpts", 0x73636673: "securityfs", 0xf97cff8c: "selinuxfs", 0xcafe4a11: "bpf", 0x62656570: "configfs",
	0x6165676c: "pstore", 0x19800202: "mqueue", 0x42494e4d: "binfmt_misc", 0xde5e81e4: "efivarfs", 0x6e736673: "nsfs",
}

// kernelFileSystem returns which file system of the kernel a path is on; "" if it is on another
// one.
func kernelFileSystem(path string) (string, error) {
	var is syscall.Statfs_t
	if err := syscall.Statfs(path, &is); err != nil {
		return "", err
	}
	return kernels[uint32(is.Type)], nil
}
