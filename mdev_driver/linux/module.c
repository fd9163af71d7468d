// SPDX-License-Identifier: GPL-2.0-only
/*
 * turnstile.ko: vGPUs of TS104 as mediated devices. Module parameters, load and unload.
 */
#include <linux/module.h>

#include "turnstile.h"

char *tsl_policy = "best_effort";
module_param_named(policy, tsl_policy, charp, 0444);
MODULE_PARM_DESC(policy, "Scheduling policy of every GPU at start (default best_effort)");

unsigned int tsl_pin_batch = TSL_PIN_BATCH_MAX;
module_param_named(pin_batch, tsl_pin_batch, uint, 0444);
MODULE_PARM_DESC(pin_batch, "Guest pages pinned in one call, 1 to 512 (default 512)");

/* Says which policies there are. `dev` may be null. */
void tsl_log_policies(struct device *dev, const char *wrong)
{
	char names[160] = "";
	const char *name;
	size_t used = 0;
	u32 i;

	for (i = 0; (name = ts_policy_name(i)); i++)
		used += scnprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", name);
	if (dev)
		dev_err(dev, "no policy \"%s\"; legal: %s\n", wrong, names);
	else
		pr_err(TSL_NAME ": no policy \"%s\"; legal: %s\n", wrong, names);
}

static int tsl_check_parameters(void)
{
	const char *name;
	u32 i;

	if (tsl_pin_batch < 1 || tsl_pin_batch > TSL_PIN_BATCH_MAX) {
		pr_err(TSL_NAME ": pin_batch=%u; legal: 1 to %u\n", tsl_pin_batch,
		       TSL_PIN_BATCH_MAX);
		return -EINVAL;
	}
	for (i = 0; (name = ts_policy_name(i)); i++) {
		if (!strcmp(name, tsl_policy))
			return 0;
	}
	tsl_log_policies(NULL, tsl_policy);
	return -EINVAL;
}

static int __init tsl_init(void)
{
	int ret = tsl_check_parameters();

	if (ret)
		return ret;
	tsl_debugfs_init();
	ret = mdev_register_driver(&tsl_mdev_driver);
	if (ret)
		goto err_debugfs;
	/* Success without a TS104 as well: the driver waits for one. */
	ret = pci_register_driver(&tsl_pci_driver);
	if (ret)
		goto err_mdev;
	return 0;

err_mdev:
	mdev_unregister_driver(&tsl_mdev_driver);
err_debugfs:
	tsl_debugfs_exit();
	return ret;
}

static void __exit tsl_exit(void)
{
	pci_unregister_driver(&tsl_pci_driver);
	mdev_unregister_driver(&tsl_mdev_driver);
	tsl_debugfs_exit();
}

module_init(tsl_init);
module_exit(tsl_exit);

MODULE_DESCRIPTION("vGPUs of TS104 as mediated devices");
MODULE_AUTHOR("Turnstile");
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: vfio_iommu_type1");
