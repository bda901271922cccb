int sl_zzz;
